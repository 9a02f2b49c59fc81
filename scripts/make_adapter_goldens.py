#!/usr/bin/env python3
"""Makes tests/golden/tiny/<name>.lora.gguf, LoRA adapters for tiny models of make_tiny_models.py, and
<model>.lora.json: the logits and greedy continuations that transformers with peft (CPU, f32) computes with them, one by
one, together and at other scales. Formats and semantics: tests/golden/README.md.

Pairs are random (peft's own start, a zero matrix, would change nothing), with no more mantissa bits than bfloat16.

    python scripts/make_adapter_goldens.py [--out FOLDER]
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
import peft
import torch

from make_tiny_models import FOUND, VARIANTS, interleave, logits_of, make_model, tensor_name

GREEDY_TOKENS = 16
LOGIT_ROWS = 4
# name: (model, rank, alpha, modules). llama's rows of q and k are interleaved; qwen2 has biases and is tied.
ADAPTERS = {
    "llama.a": ("llama", 4, 8.0, ["q_proj", "v_proj", "o_proj", "lm_head"]),
    "llama.b": ("llama", 6, 9.0, ["q_proj", "k_proj", "gate_proj", "up_proj", "down_proj"]),
    "qwen2.a": ("qwen2", 16, 16.0, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
}
# model: the adapters in the order of loading, and lists of their scales.
RUNS = {"llama": (["llama.a", "llama.b"], [[1, 0], [0, 1], [1, 1], [0.5, -1.5], [0, 0]]),
        "qwen2": (["qwen2.a"], [[1], [2], [0]])}


def short_floats(shape, size, rng):
    """Random numbers with a bfloat16's mantissa."""
    values = (rng.standard_normal(shape) * size).astype(np.float32)
    return torch.from_numpy(values).to(torch.bfloat16).to(torch.float32)


def add_adapters(model, names):
    wrapped = None
    for number, name in enumerate(names):
        _, rank, alpha, modules = ADAPTERS[name]
        config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=modules, lora_dropout=0.0, bias="none")
        label = name.replace(".", "_")
        if wrapped is None:
            wrapped = peft.get_peft_model(model, config, adapter_name=label)
        else:
            wrapped.add_adapter(label, config)
        rng = np.random.default_rng(100 + number + len(name))
        for key, parameter in wrapped.named_parameters():
            if f".{label}." in key:
                parameter.data = short_floats(tuple(parameter.shape), 0.2, rng)
    return wrapped.eval()


def write_adapter(wrapped, name, folder):
    architecture, rank, alpha, _ = ADAPTERS[name]
    label = name.replace(".", "_")
    writer = gguf.GGUFWriter(folder / f"{name}.lora.gguf", architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    config = wrapped.config
    for key, parameter in wrapped.named_parameters():
        half = next((half for half in "AB" if f".lora_{half}.{label}." in key), None)
        if half is None:
            continue
        module = key.removeprefix("base_model.model.").split(".lora_")[0]
        value = parameter.detach().numpy()
        if half == "B" and architecture == "llama" and ("q_proj" in module or "k_proj" in module):
            value = interleave(value, config.num_attention_heads if "q_proj" in module else config.num_key_value_heads)
        writer.add_tensor(f"{tensor_name(module + '.weight', architecture)}.lora_{half.lower()}",
                          np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def set_scales(wrapped, names, scales):
    labels = [name.replace(".", "_") for name in names]
    wrapped.base_model.set_adapter(labels)
    for module in wrapped.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            for name, label, scale in zip(names, labels, scales):
                if label in module.scaling:
                    module.scaling[label] = scale * ADAPTERS[name][2] / ADAPTERS[name][1]


@torch.no_grad()
def run(wrapped, prompt):
    ids = list(prompt)
    for _ in range(GREEDY_TOKENS):
        ids.append(int(logits_of(wrapped, ids)[-1].argmax()))
    rows = logits_of(wrapped, ids)[len(prompt) - LOGIT_ROWS:len(prompt) + LOGIT_ROWS]
    rows = [[float(str(np.float32(x))) for x in row] for row in rows]
    return {"logits": rows, "greedy": ids[len(prompt):]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/golden/tiny")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, (adapters, all_scales) in RUNS.items():
        architecture, _, values = VARIANTS[name]
        wrapped = add_adapters(make_model(architecture, values, FOUND[name]), adapters)
        for adapter in adapters:
            write_adapter(wrapped, adapter, arguments.out)
        prompt = json.loads((arguments.out / f"{name}.json").read_text())["prompt"]
        runs = []
        for scales in all_scales:
            set_scales(wrapped, adapters, scales)
            runs.append({"scales": scales, **run(wrapped, prompt)})
            print(name, scales, runs[-1]["greedy"], flush=True)
        golden = {"model": f"{name}.gguf", "adapters": [f"{adapter}.lora.gguf" for adapter in adapters], "prompt": prompt,
                  "runs": runs}
        text = json.dumps(golden, separators=(",", ":")).replace("],[", "],\n[").replace('{"scales', '\n{"scales')
        (arguments.out / f"{name}.lora.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
