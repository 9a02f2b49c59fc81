#!/usr/bin/env python3
"""Makes tests/golden/tiny: a tiny random model of every supported architecture as an f32 GGUF file, with the logits and
the greedy continuation that transformers (CPU, f32) computes for it. Formats and semantics: tests/golden/README.md.

Seeds are searched until the greedy continuation is well separated (GAP) and varied; FOUND has those of an earlier
search. Each GGUF is read back by transformers' own GGUF loader, and each scaling or window is switched off once, to see
that the expected values do depend on it.

    python scripts/make_tiny_models.py [--out FOLDER] [VARIANT ...]
"""

import json
import math
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

import tiny_dense_models as dense
import tiny_extra

PROMPT_TOKENS = 40
GREEDY_TOKENS = 64
LOGIT_ROWS = 4          # at the end of the prompt, and after it
GAP = 6e-3              # smallest (best - second) / max |logit| at each greedy step
ROUTE_GAP = 2.5e-3       # smallest (worst chosen - best left) / max |router logit| at each position and layer
DISTINCT, DISTINCT_LATE = 20, 10   # distinct ids of all greedy ids, of the last half
MAX_SEEDS = 2000
# Tried first; a search starts only if one no longer meets the conditions.
FOUND = {"llama": 3, "llama_rope_llama3": 84, "llama_rope_linear": 39, "llama_rope_yarn": 10, "qwen2": 78, "qwen3": 20,
         "qwen2moe": 116, "qwen3moe": 673,
         "gpt_oss": 725, "deepseek2": 474, "deepseek2_lite": 993,
         "gemma3": 75, "gemma3_rope_linear": 1710}
VOCAB = 288

# name: (architecture, tokenizer, config, extra). Numbers are chosen small, and unlike each other to catch swapped
# dimensions.
BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5)
VARIANTS = {
    "llama": ("llama", "spm", dict(BASE, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                                   tie_word_embeddings=False)),
    "llama_rope_llama3": ("llama", "bpe", dict(
        BASE, head_dim=16, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64})),
    "llama_rope_linear": ("llama", "spm", dict(
        BASE, hidden_size=80, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})),
    "llama_rope_yarn": ("llama", "spm", dict(
        BASE, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 8.0,
                         "beta_slow": 1.0, "original_max_position_embeddings": 64})),
    "qwen2": ("qwen2", "bpe", dict(
        BASE, hidden_size=96, intermediate_size=128, num_hidden_layers=2, num_attention_heads=6,
        tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen3": ("qwen3", "bpe", dict(
        BASE, head_dim=32, tie_word_embeddings=False, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen2moe": ("qwen2moe", "bpe", dict(
        BASE, num_hidden_layers=2, tie_word_embeddings=True, rms_norm_eps=1e-6, num_experts=8, num_experts_per_tok=3,
        moe_intermediate_size=32, shared_expert_intermediate_size=56, norm_topk_prob=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen3moe": ("qwen3moe", "bpe", dict(
        BASE, num_hidden_layers=2, head_dim=32, tie_word_embeddings=False, rms_norm_eps=1e-6, num_experts=9,
        num_experts_per_tok=4, moe_intermediate_size=40, norm_topk_prob=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "gemma3": ("gemma3", "spm_gemma", dict(
        BASE, intermediate_size=80, num_hidden_layers=7, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
        query_pre_attn_scalar=32, sliding_window=16, rms_norm_eps=1e-6,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
    "gemma3_rope_linear": ("gemma3", "spm_gemma", dict(
        BASE, intermediate_size=48, num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
        query_pre_attn_scalar=32, sliding_window=16, rms_norm_eps=1e-6,
        rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
}
VARIANTS |= tiny_extra.VARIANTS
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "qwen2moe": (transformers.Qwen2MoeConfig, transformers.Qwen2MoeForCausalLM),
    "qwen3moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
} | {name: (kind.config_class, kind.model_class) for name, kind in tiny_extra.ARCHITECTURES.items()}

VARIANTS.update(dense.VARIANTS)
CLASSES.update(dense.CLASSES)
FOUND.update(dense.FOUND)

# ---- tokenizers: minimal, but whole ----

PIECES = ["▁", "e", "t", "a", "o", "i", "n", "s", "h", "r", "d", "l", "u", "th", "the", "▁the", "in", "er", "an", "re",
          "on", "▁a", "▁t", "nd", "and", "▁and", "is", "▁i", "▁is"]
MERGES = ["Ġ t", "h e", "i n", "e r", "a n", "r e", "o n", "Ġt he", "Ġ a", "a t", "n d", "e s", "o r", "Ġ s", "i s",
          "i t", "o u", "Ġ o", "e n", "Ġ w", "l l", "an d", "Ġ b", "in g", "Ġ f", "Ġ c", "e d", "Ġa nd", "Ġ p"]
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def byte_alphabet():
    """The character that stands for each byte in byte-level BPE."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def add_spm(writer, gemma):
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] if gemma else ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = PIECES[:VOCAB - len(special) - 256]
    types = [UNKNOWN if token == "<unk>" else CONTROL for token in special] + [BYTE] * 256 + [NORMAL] * len(pieces)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(special + byte_tokens + pieces)
    writer.add_token_scores([0.0] * (len(special) + 256) + [-float(i) for i in range(len(pieces))])
    writer.add_token_types(types)
    writer.add_bos_token_id(2 if gemma else 1)
    writer.add_eos_token_id(1 if gemma else 2)
    writer.add_unk_token_id(3 if gemma else 0)
    if gemma:
        writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(not gemma)
    return (2 if gemma else 1), len(special), VOCAB


def add_bpe(writer, llama3):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"] if llama3 else [
        "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    merges = MERGES[:VOCAB - 256 - len(special)]
    tokens = byte_alphabet() + [merge.replace(" ", "") for merge in merges] + special
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe" if llama3 else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([NORMAL] * (len(tokens) - len(special)) + [CONTROL] * len(special))
    writer.add_token_merges(merges)
    first = len(tokens) - len(special)
    writer.add_bos_token_id(first)
    writer.add_eos_token_id(first + (1 if llama3 else 2))
    writer.add_add_bos_token(llama3)
    return (first if llama3 else None), 0, first


def add_tokenizer(writer, kind, architecture):
    """Returns the id that starts every prompt (or None), and the range of ids that are not special."""
    if kind == "bpe":
        return add_bpe(writer, architecture == "llama")
    return add_spm(writer, kind == "spm_gemma")


# ---- models ----

def make_model(variant, config_values, seed):
    architecture = VARIANTS[variant][0]
    config_class, model_class = CLASSES.get(variant) or CLASSES[architecture]
    eager = {"experts_implementation": "eager"} if any("experts" in key for key in config_values) else {}
    config = config_class(**config_values, attn_implementation="eager", pad_token_id=None, **eager)
    model = model_class(config).eval()
    generator = torch.Generator().manual_seed(seed)
    # A tied embedding would repeat its input, were it not small beside what the layers add.
    gains = {"q_proj": 2.0, "k_proj": 2.0, "v_proj": 1.5, "o_proj": 1.5, "down_proj": 3.0, **dense.PROJECTION_GAINS}
    scale = dense.embedding_scale(architecture, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            extra = tiny_extra.ARCHITECTURES.get(architecture)
            value = (extra.random(name, parameter, generator, config.hidden_size) if extra
                     else torch.randn(parameter.shape, generator=generator))
            if extra:
                pass
            elif "norm" in name:
                value = 0.2 * value + (0.0 if architecture in dense.PLUS_ONE or name.endswith(".bias") else 1.0)
            elif name.endswith(".bias"):
                value *= 0.5
            elif "embed_tokens" in name:
                value *= 0.5 / scale
            else:
                # Experts' matrices are parameters of their own, others are the weight of a module.
                gain = next((gains[part] for part in name.split(".")[-2:] if part in gains), 1.0)
                value *= gain / math.sqrt(parameter.shape[-1])
            value *= dense.gain(architecture, name)
            # Few mantissa bits: the files compress well, and convert to BF16 without loss.
            parameter.copy_(value.to(torch.bfloat16).to(torch.float32))
        tiny_extra.fill_buffers(model, architecture, generator)
    return model


@torch.no_grad()
def logits_of(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def relative_gap(row):
    best = torch.topk(row, 2).values
    return float((best[0] - best[1]) / row.abs().max())


def greedy(model, prompt, normal_ids):
    """The continuation and its smallest gap, or None: a step is not well separated, or leaves the normal ids."""
    ids, smallest = list(prompt), math.inf
    for _ in range(GREEDY_TOKENS):
        row = logits_of(model, ids)[-1]
        gap, best = relative_gap(row), int(row.argmax())
        if gap < GAP or best not in normal_ids:
            return None
        smallest = min(smallest, gap)
        ids.append(best)
    new = ids[len(prompt):]
    if len(set(new)) < DISTINCT or len(set(new[GREEDY_TOKENS // 2:])) < DISTINCT_LATE:
        return None
    return new, smallest


@torch.no_grad()
def route_gap(model, ids):
    """The smallest distance between an expert that is chosen and one that is not; infinite without experts."""
    smallest = math.inf
    extra = next((kind for kind in tiny_extra.ARCHITECTURES.values() if isinstance(model, kind.model_class)), None)
    if hasattr(extra, "route_gap"):
        logits = model(torch.tensor([ids]), use_cache=False, output_router_logits=True).router_logits
        return extra.route_gap(model, logits, ROUTE_GAP)
    if not hasattr(model.config, "num_experts"):
        return smallest
    chosen = model.config.num_experts_per_tok
    for logits in model(torch.tensor([ids]), use_cache=False, output_router_logits=True).router_logits:
        ordered = torch.sort(logits.float(), descending=True).values
        gaps = (ordered[:, chosen - 1] - ordered[:, chosen]) / logits.abs().max(-1).values
        smallest = min(smallest, float(gaps.min()))
    return smallest


def find_model(name, config, bos, normal_ids):
    for seed in [FOUND.get(name, 0), *range(MAX_SEEDS)]:
        model = make_model(name, config, seed)
        numbers = np.random.default_rng(seed)
        prompt = [int(i) for i in numbers.integers(normal_ids.start, normal_ids.stop, PROMPT_TOKENS)]
        if bos is not None:
            prompt[0] = bos
        found = greedy(model, prompt, normal_ids)
        if found and route_gap(model, prompt + found[0]) >= ROUTE_GAP:
            return seed, model, prompt, *found
    raise SystemExit("no seed gives a well separated continuation")


# ---- GGUF, as llama.cpp's converter names things ----

TENSORS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp", "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
GEMMA_TENSORS = dict(TENSORS, post_attention_layernorm="post_attention_norm", pre_feedforward_layernorm="ffn_norm",
                     post_feedforward_layernorm="post_ffw_norm")


def tensor_name(name, architecture):
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "model.norm.bias": "output_norm.bias",
             "lm_head.weight": "output.weight"}
    if name in whole:
        return whole[name]
    _, _, layer, rest = name.split(".", 3)
    module, kind = (rest, "weight") if "experts" in rest else rest.rsplit(".", 1)
    names = GEMMA_TENSORS if architecture == "gemma3" else dict(TENSORS, **dense.TENSORS.get(architecture, {}))
    return f"blk.{layer}.{names[module]}.{kind}"


def interleave(weight, heads):
    """Rows of each head from (first halves, second halves) to adjacent pairs: the llama architecture's rotation."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def add_tensors(writer, model, architecture):
    config = model.config
    if architecture in tiny_extra.ARCHITECTURES:
        return tiny_extra.add_tensors(writer, model, architecture)
    for name, parameter in model.named_parameters():
        value = parameter.detach().numpy()
        if architecture in dense.PAIRED and "q_proj" in name:
            value = interleave(value, config.num_attention_heads)
        if architecture in dense.PAIRED and "k_proj" in name:
            value = interleave(value, config.num_key_value_heads)
        if architecture in dense.PLUS_ONE and "norm" in name:
            value = value + np.float32(1)
        if ".norms." in name:
            continue  # written whole below
        if "shared_expert_gate" in name:
            value = value[0]
        if "experts.gate_up_proj" in name:
            for part, half in zip(("gate", "up"), np.split(value, 2, axis=1)):
                writer.add_tensor(f"blk.{name.split('.')[2]}.ffn_{part}_exps.weight", np.ascontiguousarray(half))
            continue
        writer.add_tensor(tensor_name(name, architecture), np.ascontiguousarray(value, np.float32))
    for name, norms in dense.stacked_norms(model):
        writer.add_tensor(name, norms)
    rope = config.rope_parameters
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, config.head_dim))


def llama3_factors(rope, head_dim):
    """What each pair's frequency is divided by: 1 (high frequency), the factor (low), or between."""
    factors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        blend = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        blend = min(1.0, max(0.0, blend))
        factors.append(1 / ((1 - blend) / rope["factor"] + blend))
    return np.array(factors, np.float32)


def add_rope(writer, rope):
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def add_parameters(writer, architecture, values):
    writer.add_type("model")
    writer.add_name(f"tiny {architecture}")
    writer.add_context_length(values["max_position_embeddings"])
    writer.add_embedding_length(values["hidden_size"])
    writer.add_block_count(values["num_hidden_layers"])
    writer.add_feed_forward_length(values["intermediate_size"])
    writer.add_head_count(values["num_attention_heads"])
    if "num_local_experts" not in values or "kv_lora_rank" not in values:
        writer.add_head_count_kv(values["num_key_value_heads"])
    if "rms_norm_eps" in values:
        writer.add_layer_norm_rms_eps(values["rms_norm_eps"])
    if "head_dim" in values:
        writer.add_key_length(values["head_dim"])
        writer.add_value_length(values["head_dim"])
    if "num_experts" in values:
        writer.add_expert_count(values["num_experts"])
        writer.add_expert_used_count(values["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(values["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in values:
        writer.add_expert_shared_feed_forward_length(values["shared_expert_intermediate_size"])
    if architecture in dense.PAIRED:
        writer.add_vocab_size(VOCAB)
        writer.add_rope_dimension_count(values.get("head_dim", values["hidden_size"] // values["num_attention_heads"]))
    if architecture == "gemma3":
        writer.add_sliding_window(values["sliding_window"])
    if architecture in tiny_extra.ARCHITECTURES:
        tiny_extra.ARCHITECTURES[architecture].add_parameters(writer, values)
    dense.add_parameters(writer, architecture, values)
    rope = values["rope_parameters"]
    add_rope(writer, rope.get("full_attention", rope))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


# ---- checks ----

def switched_off(name, values):
    """The configs with what the variant is about switched off, one thing each."""
    if name in dense.VARIANTS:
        return [dict(values, **change) for change in dense.OFF.get(name, [])]
    plain = unscaled(VARIANTS[name][0], values)
    return [plain] if plain else []


def unscaled(architecture, values):
    """The config with what the variant is about switched off; None if there is nothing."""
    values = json.loads(json.dumps(values))
    if architecture in tiny_extra.ARCHITECTURES:
        return tiny_extra.ARCHITECTURES[architecture].switched_off(values)
    rope = values["rope_parameters"]
    if architecture == "gemma3":
        if rope["full_attention"]["rope_type"] == "default":
            values["sliding_window"] = 4096
        rope["full_attention"] = {"rope_type": "default", "rope_theta": 1000000.0}
    elif "norm_topk_prob" in values:
        values["norm_topk_prob"] = not values["norm_topk_prob"]
    elif rope["rope_type"] == "default":
        return None
    else:
        values["rope_parameters"] = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    return values


def rotation(rope, dims):
    """Radians a position for each pair, and the factor on cosine and sine, as README.md says of the keys."""
    plain = rope["rope_theta"] ** (-np.arange(0, dims, 2) / dims)
    if rope["rope_type"] == "linear":
        return plain / rope["factor"], 1.0
    if rope["rope_type"] == "llama3":
        return plain / llama3_factors(rope, dims), 1.0
    if rope["rope_type"] == "longrope":
        original = rope["original_max_position_embeddings"]
        kind = "long" if PROMPT_TOKENS > original else "short"
        factor = max(1.0, BASE["max_position_embeddings"] / original)
        return plain / np.array(rope[f"{kind}_factor"]), math.sqrt(1 + math.log(factor) / math.log(original))
    if rope["rope_type"] == "default":
        return plain, 1.0

    def pair_with_turns(turns):
        context = rope["original_max_position_embeddings"]
        return dims * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    low = max(0, math.floor(pair_with_turns(rope["beta_fast"])))
    high = min(dims - 1, math.ceil(pair_with_turns(rope["beta_slow"])))
    ramp = np.clip((np.arange(dims // 2) - low) / max(0.001, high - low), 0, 1)
    magnitude = (0.1 * math.log(rope["factor"]) + 1) / (
        0.1 * rope.get("mscale_all_dim", 0) * math.log(rope["factor"]) + 1)
    return plain * (1 - ramp) + plain / rope["factor"] * ramp, magnitude


def check_rotation(model):
    rope, embedding = model.config.rope_parameters, model.model.rotary_emb
    kinds = [f"{kind}_" for kind in rope] if "full_attention" in rope else [""]
    for kind in kinds:
        parameters = rope[kind[:-1]] if kind else rope
        frequencies, factor = rotation(parameters, 2 * len(getattr(embedding, f"{kind}inv_freq")))
        np.testing.assert_allclose(getattr(embedding, f"{kind}inv_freq").numpy(), frequencies, rtol=1e-6)
        assert math.isclose(getattr(embedding, f"{kind}attention_scaling"), factor)


def difference(a, b):
    return float((a - b).abs().max() / a.abs().max())


def reread_difference(path, model, ids, logits):
    """How far the GGUF as transformers reads it is from `logits`; it is given the config, since it drops the scaling
    keys and qwen3's head size: this checks tensors."""
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, config=model.config, dtype=torch.float32).eval()
    return difference(logits, logits_of(loaded, ids))


def check_variant(path, name, values, model, ids, logits):
    """How far the GGUF as transformers reads it, double precision and the switched-off variants are from `logits`."""
    report = {}
    extra = VARIANTS[name][0] in tiny_extra.ARCHITECTURES
    if not extra:
        check_rotation(model)
    if not extra and (name not in dense.VARIANTS or name in dense.REREAD):
        report["reread"] = reread_difference(path, model, ids, logits)
        assert report["reread"] == 0.0, report
    report["double"] = difference(logits, logits_of(make_model(name, values, model.seed).double(), ids))
    report["switched off"] = [difference(logits, logits_of(make_model(name, plain, model.seed), ids))
                              for plain in switched_off(name, values)]
    assert min(report["switched off"], default=1) > 0.05, report
    assert report["double"] < 1e-4, report
    return report


def make_variant(name, folder):
    architecture, tokenizer, values = VARIANTS[name]
    path = folder / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, tiny_extra.file_architecture(architecture))
    add_parameters(writer, architecture, values)
    bos, first, last = add_tokenizer(writer, tokenizer, architecture)
    seed, model, prompt, continuation, gap = find_model(name, values, bos, range(first, last))
    model.seed = seed
    add_tensors(writer, model, architecture)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    ids = prompt + continuation
    logits = logits_of(model, ids)
    assert [int(i) for i in logits[len(prompt) - 1:-1].argmax(-1)] == continuation
    last = len(prompt) - 1
    rows = [[float(str(np.float32(x))) for x in row] for row in logits[last - LOGIT_ROWS + 1:last + LOGIT_ROWS + 1]]
    golden = {"model": path.name, "architecture": tiny_extra.file_architecture(architecture), "seed": seed, "smallest_gap": gap, "prompt": prompt,
              "prompt_logits": rows[:LOGIT_ROWS], "decode_logits": rows[LOGIT_ROWS:], "greedy": continuation}
    text = json.dumps(golden, separators=(",", ":")).replace("[[", "[\n[").replace("],[", "],\n[").replace(',"', ',\n"')
    (folder / f"{name}.json").write_text(text + "\n")
    report = check_variant(path, name, values, model, ids, logits)
    print(f"{name}: seed {seed}, gap {gap:.4f}, {len(set(continuation))} distinct ids, {path.stat().st_size} bytes, "
          f"{report}", flush=True)


def main():
    tiny_extra.make_all(VARIANTS, make_variant)


if __name__ == "__main__":
    main()
