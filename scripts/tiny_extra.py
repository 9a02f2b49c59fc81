"""Architectures of make_tiny_models.py whose parameters don't map to a file's tensors one by one: for each its config, how
its random parameters are made, its metadata and its tensors, as llama.cpp's converter writes them."""

import math

import numpy as np
import torch
import transformers


class GptOss:
    """Experts with biases, clamped gates and an attention sink a head; windows in every other layer."""

    config_class, model_class = transformers.GptOssConfig, transformers.GptOssForCausalLM
    variants = {
        "gpt_oss": ("bpe", dict(
            vocab_size=288, hidden_size=64, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, head_dim=32, max_position_embeddings=256, rms_norm_eps=1e-5, num_local_experts=6,
            num_experts_per_tok=3, sliding_window=16, tie_word_embeddings=False,
            rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 4.0, "beta_fast": 8.0,
                             "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 64})),
    }

    @staticmethod
    def random(name, parameter, generator, hidden_size):
        value = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            return 0.2 * value + 1.0
        if name.endswith("sinks"):
            return value
        if "bias" in name:
            return 0.5 * value
        if "embed_tokens" in name:
            return 0.5 * value
        # Gates that reach their limit of 7.
        gains = {"gate_up_proj": 4.0, "down_proj": 1.0, "q_proj": 2.0, "k_proj": 2.0, "v_proj": 1.5, "o_proj": 1.5}
        gain = next((gains[part] for part in name.split(".")[-2:] if part in gains), 1.0)
        inputs = parameter.shape[1] if "experts" in name else parameter.shape[-1]
        return value * gain / math.sqrt(inputs)

    @staticmethod
    def add_parameters(writer, values):
        writer.add_expert_count(values["num_local_experts"])
        writer.add_expert_used_count(values["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(values["intermediate_size"])
        writer.add_sliding_window(values["sliding_window"])

    @staticmethod
    def tensors(model):
        modules = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                   "self_attn.o_proj": "attn_output", "mlp.router": "ffn_gate_inp", "input_layernorm": "attn_norm",
                   "post_attention_layernorm": "post_attention_norm"}
        whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                 "lm_head.weight": "output.weight"}
        for name, parameter in model.named_parameters():
            value = parameter.detach().numpy()
            if name in whole:
                yield whole[name], value
                continue
            _, _, layer, rest = name.split(".", 3)
            prefix = f"blk.{layer}."
            if rest == "self_attn.sinks":
                yield prefix + "attn_sinks.weight", value
            elif rest == "mlp.experts.gate_up_proj":
                for part, start in (("gate", 0), ("up", 1)):
                    yield f"{prefix}ffn_{part}_exps.weight", value[:, :, start::2].swapaxes(1, 2)
            elif rest == "mlp.experts.gate_up_proj_bias":
                for part, start in (("gate", 0), ("up", 1)):
                    yield f"{prefix}ffn_{part}_exps.bias", value[:, start::2]
            elif rest == "mlp.experts.down_proj":
                yield prefix + "ffn_down_exps.weight", value.swapaxes(1, 2)
            elif rest == "mlp.experts.down_proj_bias":
                yield prefix + "ffn_down_exps.bias", value
            else:
                module, kind = rest.rsplit(".", 1)
                yield f"{prefix}{modules[module]}.{kind}", value

    @staticmethod
    def switched_off(values):
        """The config with the window and the ramp's parts left out."""
        return dict(values, sliding_window=4096, rope_parameters=dict(values["rope_parameters"], truncate=True))


ARCHITECTURES = {"gpt-oss": GptOss}
VARIANTS = {name: (architecture, *row) for architecture, kind in ARCHITECTURES.items()
            for name, row in kind.variants.items()}


def add_tensors(writer, model, architecture):
    for name, value in ARCHITECTURES[architecture].tensors(model):
        writer.add_tensor(name, np.ascontiguousarray(value, np.float32))
