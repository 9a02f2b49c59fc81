#!/usr/bin/env python3
"""Makes tests/golden/models/<name>.json: what transformers (CPU, f32) computes for eight prompts on a real GGUF model.

Transformers decodes the file's quantized weights to f32, so these are the exact values for that very file. Format:
tests/golden/README.md. The loading is checked first: a greedy continuation must contain what a sound model says.

    python scripts/make_model_goldens.py [--models FOLDER] [--out FOLDER] [NAME ...]
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import transformers

# Each model with the start of its greedy continuation of the first prompt; a wrongly loaded one says something else.
MODELS = {
    "smollm2-135m": " Paris.",
    "gemma3-270m": " the capital of the country of France.",
    "qwen2.5-coder-0.5b": " Paris. Paris is located in",
}
TOP = 64
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived an old fisherman who",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "int main(void) {\n    for (int i = 0; i < 10; i++) {\n        printf(",
    "1, 2, 4, 8, 16, 32, 64, 128,",
    "12 + 30 = 42. 17 + 25 =",
    "La Révolution française a commencé en 1789, et la Déclaration des droits de l'homme",
    "东京是日本的首都。北京是",
]


def load(folder, name):
    arguments = dict(gguf_file=f"{name}.gguf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **arguments)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, **arguments).eval()
    return tokenizer, model


@torch.no_grad()
def greedy_text(tokenizer, model, prompt, tokens):
    ids = tokenizer(prompt)["input_ids"]
    for _ in range(tokens):
        ids = ids + [int(model(torch.tensor([ids])).logits[0, -1].argmax())]
    return tokenizer.decode(ids, skip_special_tokens=True)


@torch.no_grad()
def expected(tokenizer, model, prompt):
    ids = tokenizer(prompt)["input_ids"]
    logits = model(torch.tensor([ids])).logits[0, -1].float()
    top = torch.topk(logits, TOP)
    return {"text": prompt, "ids": ids, "logsumexp": float(torch.logsumexp(logits.double(), -1)),
            "top_ids": top.indices.tolist(), "top_logits": [float(str(np.float32(x))) for x in top.values]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path, default=Path.home() / ".cache/minfer/models")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/golden/models")
    parser.add_argument("names", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in arguments.names or MODELS:
        tokenizer, model = load(arguments.models, name)
        text = greedy_text(tokenizer, model, PROMPTS[0], 10)
        print(f"{name}: {text!r}", flush=True)
        assert text.startswith(PROMPTS[0] + MODELS[name]), "the model was not loaded rightly"
        prompts = [expected(tokenizer, model, prompt) for prompt in PROMPTS]
        lines = ",\n".join(json.dumps(prompt, ensure_ascii=False, separators=(",", ":")) for prompt in prompts)
        (arguments.out / f"{name}.json").write_text(f'{{"model":"{name}.gguf","prompts":[\n{lines}\n]}}\n')
        print([len(prompt["ids"]) for prompt in prompts])


if __name__ == "__main__":
    main()
