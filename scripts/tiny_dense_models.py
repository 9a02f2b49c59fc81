"""The dense architectures of make_tiny_models.py beside llama's and qwen's: their variants, and what llama.cpp's converter
makes of their configs and tensors. No script of its own: make_tiny_models.py imports the tables.
"""

import math

import gguf
import numpy as np
import transformers

VOCAB = 288
SIZES = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512)
RMS = dict(SIZES, rms_norm_eps=1e-5)
# Models whose windows or RoPE repeat every four layers.
FIVE = dict(RMS, hidden_size=48, intermediate_size=64, num_hidden_layers=5, num_attention_heads=3,
            num_key_value_heads=1)
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# Two thirds of a head of 24.
SHORT, LONG = [1.0 + 0.0625 * i for i in range(8)], [1.0 + i * i for i in range(8)]


def long_rope(original):
    return {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 16 / 24, "short_factor": SHORT,
            "long_factor": LONG, "original_max_position_embeddings": original}


PHI3 = dict(RMS, hidden_size=72, num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=True)
STABLELM = dict(SIZES, layer_norm_eps=1e-5, rope_parameters=dict(ROPE, partial_rotary_factor=0.25),
                tie_word_embeddings=True)

# name: (architecture, tokenizer, config)
VARIANTS = {
    "gemma": ("gemma", "spm_gemma", dict(RMS, num_attention_heads=2, num_key_value_heads=1, head_dim=48,
                                         rope_parameters=ROPE)),
    "gemma2": ("gemma2", "spm_gemma", dict(
        RMS, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=16, attn_logit_softcapping=6.0, final_logit_softcapping=3.0, rope_parameters=ROPE)),
    "mistral": ("llama", "spm", dict(RMS, head_dim=24, sliding_window=20, tie_word_embeddings=True,
                                     rope_parameters=ROPE)),
    "mistral3": ("mistral3", "bpe", dict(
        RMS, head_dim=16, tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "original_max_position_embeddings": 16, "mscale": 1.0,
                         "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5})),
    "phi3": ("phi3", "spm", dict(PHI3, sliding_window=24, rope_parameters=long_rope(512),
                                 original_max_position_embeddings=512)),
    "phi3_rope_long": ("phi3", "spm", dict(PHI3, rope_parameters=long_rope(32), original_max_position_embeddings=32)),
    "granite": ("granite", "bpe", dict(
        RMS, embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.25, attention_multiplier=0.5,
        tie_word_embeddings=True, rope_parameters=ROPE)),
    "olmo2": ("olmo2", "bpe", dict(RMS, tie_word_embeddings=True, rope_parameters=ROPE)),
    "olmo3": ("olmo2", "bpe", dict(
        FIVE, sliding_window=16, tie_word_embeddings=True,
        rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0,
                                            "beta_fast": 8.0, "beta_slow": 1.0,
                                            "original_max_position_embeddings": 64},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}})),
    "smollm3": ("smollm3", "bpe", dict(FIVE, tie_word_embeddings=True, rope_parameters=ROPE)),
    "glm4": ("glm4", "bpe", dict(RMS, head_dim=24, attention_bias=True, tie_word_embeddings=True,
                                 rope_parameters=dict(ROPE, partial_rotary_factor=0.5))),
    "starcoder2": ("starcoder2", "bpe", dict(SIZES, norm_epsilon=1e-5, use_bias=True, tie_word_embeddings=True,
                                             rope_parameters=ROPE)),
    "stablelm": ("stablelm", "bpe", dict(STABLELM, use_qkv_bias=True)),
    "stablelm_parallel": ("stablelm", "bpe", dict(STABLELM, use_parallel_residual=True, qk_layernorm=True)),
    "cohere2": ("cohere2", "bpe", dict(
        {key: value for key, value in FIVE.items() if key != "rms_norm_eps"}, layer_norm_eps=1e-5, logit_scale=0.25,
        sliding_window=16, tie_word_embeddings=True, rope_parameters=ROPE)),
    "exaone4": ("exaone4", "bpe", dict(FIVE, sliding_window=16, sliding_window_pattern=4, tie_word_embeddings=True,
                                       rope_parameters=ROPE)),
    "exaone4_global": ("exaone4", "bpe", dict(RMS, sliding_window=None, layer_types=["full_attention"] * 2,
                                              tie_word_embeddings=True, rope_parameters=ROPE)),
}
FOUND = {"gemma": 60, "gemma2": 7, "mistral": 5, "mistral3": 40, "phi3": 7, "phi3_rope_long": 46, "granite": 43,
         "olmo2": 26, "olmo3": 1, "smollm3": 1, "glm4": 141, "starcoder2": 476, "stablelm": 7,
         "stablelm_parallel": 162, "cohere2": 17, "exaone4": 46, "exaone4_global": 5}

# By variant where an architecture's files come from several classes.
CLASSES = {
    name: (getattr(transformers, f"{stem}Config"), getattr(transformers, f"{stem}ForCausalLM"))
    for name, stem in {
        "gemma": "Gemma", "gemma2": "Gemma2", "mistral": "Mistral", "mistral3": "Ministral3", "phi3": "Phi3",
        "phi3_rope_long": "Phi3", "granite": "Granite", "olmo2": "Olmo2", "olmo3": "Olmo3", "smollm3": "SmolLM3",
        "glm4": "Glm4", "starcoder2": "Starcoder2", "stablelm": "StableLm", "stablelm_parallel": "StableLm",
        "cohere2": "Cohere2", "exaone4": "Exaone4", "exaone4_global": "Exaone4"}.items()}

# What each variant is about, switched off: the expected values must depend on it.
OFF = {
    "gemma2": [{"sliding_window": 4096}, {"attn_logit_softcapping": None}, {"final_logit_softcapping": None}],
    "mistral": [{"sliding_window": None}],
    "mistral3": [{"rope_parameters": dict(VARIANTS["mistral3"][2]["rope_parameters"], llama_4_scaling_beta=0.0)},
                 {"rope_parameters": dict(VARIANTS["mistral3"][2]["rope_parameters"], mscale_all_dim=0.0)}],
    "phi3": [{"sliding_window": None},
             {"rope_parameters": dict(long_rope(512), short_factor=[1.0] * 8)}],
    "phi3_rope_long": [{"rope_parameters": dict(long_rope(32), long_factor=SHORT)}],
    "granite": [{"embedding_multiplier": 1.0}, {"logits_scaling": 1.0}, {"residual_multiplier": 1.0},
                {"attention_multiplier": 0.25}],
    "olmo3": [{"sliding_window": 4096}],
    "smollm3": [{"no_rope_layers": [1] * 5}],
    "glm4": [{"rope_parameters": dict(ROPE, partial_rotary_factor=1.0)}],
    "stablelm": [{"rope_parameters": dict(ROPE, partial_rotary_factor=1.0)}],
    "cohere2": [{"sliding_window": 4096}, {"logit_scale": 1.0}],
    "exaone4": [{"sliding_window": 4096}],
}

PLUS_ONE = ("gemma", "gemma2", "gemma3")  # norm weights are stored with 1 added
# The rows of q and k are permuted to adjacent pairs.
PAIRED = ("llama", "mistral3", "granite", "smollm3")
# Variants that transformers reads back from their GGUF file.
REREAD = ("gemma2", "phi3", "phi3_rope_long", "starcoder2")

POST_NORMS = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
# Names that differ from make_tiny_models.py's.
TENSORS = {
    "gemma2": dict(POST_NORMS, pre_feedforward_layernorm="ffn_norm"),
    "phi3": {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"},
    "olmo2": POST_NORMS,
    "glm4": {"mlp.gate_up_proj": "ffn_up", "post_self_attn_layernorm": "post_attention_norm",
             "post_mlp_layernorm": "post_ffw_norm"},
    "starcoder2": {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
    "exaone4": POST_NORMS,
}


PROJECTION_GAINS = {"qkv_proj": 1.8, "c_proj": 3.0}
# Sharper attention where random weights alone would run into a cycle of few tokens.
GAINS = {"olmo2": {"q_norm": 2.0, "k_norm": 2.0}, "exaone4": {"q_norm": 2.0, "k_norm": 2.0},
         "gemma2": {"q_proj": 1.75, "k_proj": 1.75}}


def gain(architecture, name):
    return math.prod(value for part, value in GAINS.get(architecture, {}).items() if part in name)


def embedding_scale(architecture, config):
    """By how much the model multiplies its embeddings, beside what its layers add."""
    if architecture in PLUS_ONE:
        return math.sqrt(config.hidden_size)
    return getattr(config, "embedding_multiplier", 1.0) / getattr(config, "residual_multiplier", 1.0)


def stacked_norms(model):
    """stablelm's norms of the heads of q and k, (name, [heads][head size])."""
    for layer, block in enumerate(model.model.layers):
        for part in "qk":
            norm = getattr(block.self_attn, f"{part}_layernorm", None)
            if norm is not None:
                rows = [head.weight.detach().numpy() for head in norm.norms]
                yield f"blk.{layer}.attn_{part}_norm.weight", np.stack(rows)


def add_long_rope(writer, rope, values):
    original, context = rope["original_max_position_embeddings"], values["max_position_embeddings"]
    scale = context / original
    writer.add_rope_scaling_orig_ctx_len(original)
    factor = math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
    writer.add_rope_scaling_attn_factors(factor)
    for kind in ("short", "long"):
        writer.add_tensor(f"rope_factors_{kind}.weight", np.array(rope[f"{kind}_factor"], np.float32))


def add_parameters(writer, architecture, values):
    """What make_tiny_models.py's own add_parameters does not write."""
    if all(architecture != row[0] for row in VARIANTS.values()):
        return
    for key, add in (("layer_norm_eps", writer.add_layer_norm_eps), ("norm_epsilon", writer.add_layer_norm_eps),
                     ("attn_logit_softcapping", writer.add_attn_logit_softcapping),
                     ("final_logit_softcapping", writer.add_final_logit_softcapping),
                     ("embedding_multiplier", writer.add_embedding_scale),
                     ("residual_multiplier", writer.add_residual_scale),
                     ("attention_multiplier", writer.add_attention_scale),
                     ("logits_scaling", writer.add_logit_scale), ("logit_scale", writer.add_logit_scale)):
        if key in values:
            add(values[key])
    if values.get("sliding_window"):
        writer.add_sliding_window(values["sliding_window"])
    if values.get("sliding_window_pattern"):
        period = values["sliding_window_pattern"]
        writer.add_sliding_window_pattern([(i + 1) % period != 0 for i in range(values["num_hidden_layers"])])
    if architecture == "stablelm":
        writer.add_parallel_residual(values.get("use_parallel_residual", False))
    rope = values["rope_parameters"]
    if "partial_rotary_factor" in rope:
        head = values.get("head_dim", values["hidden_size"] // values["num_attention_heads"])
        writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * head))
    if rope.get("rope_type") == "longrope":
        add_long_rope(writer, rope, values)
    if "mscale_all_dim" in rope:
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
