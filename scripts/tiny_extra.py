"""Architectures of make_tiny_models.py whose parameters don't map to a file's tensors one by one: for each its config, how
its random parameters are made, its metadata and its tensors, as llama.cpp's converter writes them."""

import argparse
import math
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers


def make_all(variants, make_variant):
    """What the command line asks for: [--out FOLDER] [VARIANT ...]."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/golden/tiny")
    parser.add_argument("variants", nargs="*", default=list(variants))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in arguments.variants or variants:
        make_variant(name, arguments.out)


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


def deepseek_rope(log_multiplier):
    return {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 8.0, "beta_slow": 1.0,
            "mscale": log_multiplier, "mscale_all_dim": log_multiplier, "original_max_position_embeddings": 64}


class DeepSeek2:
    """Keys and values of a short vector a token; groups of experts, a shared one, dense layers first."""

    sizes = dict(vocab_size=288, hidden_size=64, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
                 num_key_value_heads=4, max_position_embeddings=256, rms_norm_eps=1e-6, first_k_dense_replace=1,
                 kv_lora_rank=40, qk_nope_head_dim=24, qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=8,
                 n_shared_experts=2, num_experts_per_tok=3, moe_intermediate_size=40, tie_word_embeddings=False)

    @staticmethod
    def random(name, parameter, generator, hidden_size):
        value = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            return 0.2 * value + 1.0
        if "embed_tokens" in name:
            return 0.5 * value
        gains = {"q_proj": 1.5, "q_b_proj": 1.5, "kv_b_proj": 1.5, "o_proj": 1.5, "down_proj": 2.0}
        gain = next((gains[part] for part in name.split(".")[-2:] if part in gains), 1.0)
        return value * gain / math.sqrt(parameter.shape[-1])

    @staticmethod
    def add_parameters(writer, values):
        splits = "num_local_experts" in values
        rope, nope, value = values["qk_rope_head_dim"], values["qk_nope_head_dim"], values["v_head_dim"]
        if splits:
            writer.add_head_count_kv(1)
            writer.add_key_length(values["kv_lora_rank"] + rope)
            writer.add_value_length(values["kv_lora_rank"])
            writer.add_key_length_mla(nope + rope)
            writer.add_value_length_mla(value)
        else:
            writer.add_key_length(nope + rope)
            writer.add_value_length(value)
        writer.add_kv_lora_rank(values["kv_lora_rank"])
        if values["q_lora_rank"]:
            writer.add_q_lora_rank(values["q_lora_rank"])
        writer.add_rope_dimension_count(rope)
        writer.add_rope_scaling_yarn_log_mul(0.1 * values["rope_parameters"]["mscale_all_dim"])
        writer.add_leading_dense_block_count(values["first_k_dense_replace"])
        writer.add_expert_count(values["n_routed_experts"])
        writer.add_expert_used_count(values["num_experts_per_tok"])
        writer.add_expert_shared_count(values["n_shared_experts"])
        writer.add_expert_feed_forward_length(values["moe_intermediate_size"])
        writer.add_expert_weights_scale(values["routed_scaling_factor"])
        writer.add_expert_weights_norm(values["norm_topk_prob"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if splits else gguf.ExpertGatingFuncType.SOFTMAX)
        if values["n_group"] > 1:
            writer.add_expert_group_count(values["n_group"])
            writer.add_expert_group_used_count(values["topk_group"])

    @classmethod
    def tensors(cls, model):
        modules = {"self_attn.q_proj": "attn_q", "self_attn.q_a_proj": "attn_q_a", "self_attn.q_b_proj": "attn_q_b",
                   "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
                   "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
                   "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm",
                   "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                   "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
                   "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp"}
        whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                 "lm_head.weight": "output.weight"}
        config = model.config
        splits = isinstance(config, transformers.DeepseekV3Config)
        for name, parameter in [*model.named_parameters(), *cls.buffers(model)]:
            value = parameter.detach().numpy()
            if name in whole:
                yield whole[name], value
                continue
            _, _, layer, rest = name.split(".", 3)
            prefix = f"blk.{layer}."
            if rest == "mlp.experts.gate_up_proj":
                for part, half in zip(("gate", "up"), np.split(value, 2, axis=1)):
                    yield f"{prefix}ffn_{part}_exps.weight", half
            elif rest == "mlp.experts.down_proj":
                yield prefix + "ffn_down_exps.weight", value
            elif rest == "mlp.gate.e_score_correction_bias":
                yield prefix + "exp_probs_b.bias", value
            elif rest == "self_attn.kv_b_proj.weight" and splits:
                heads = value.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
                keys, values = np.split(heads, [config.qk_nope_head_dim], axis=1)
                yield prefix + "attn_k_b.weight", keys.swapaxes(1, 2)
                yield prefix + "attn_v_b.weight", values
            else:
                yield f"{prefix}{modules[rest.rsplit('.', 1)[0]]}.weight", value

    @staticmethod
    def buffers(model):
        return [(name, buffer) for name, buffer in model.named_buffers() if "e_score_correction_bias" in name]

    @classmethod
    def route_gap(cls, model, logits, smallest):
        """Infinite where noise of `smallest` times the largest router logit changes no choice, else 0."""
        config, generator = model.config, torch.Generator().manual_seed(0)
        biases = [buffer for _, buffer in cls.buffers(model)] or [None] * len(logits)

        def choice(values, bias):
            scores = torch.softmax(values, -1) if bias is None else values.sigmoid() + bias
            groups = scores.view(len(scores), config.n_group, -1)
            best = groups.max(-1).values if bias is None else groups.topk(2, dim=-1).values.sum(-1)
            kept = torch.zeros_like(best).scatter_(1, best.topk(config.topk_group, dim=-1).indices, 1.0)
            masked = torch.where(kept[..., None].bool(), groups, -torch.inf).flatten(1)
            return masked.topk(config.num_experts_per_tok, dim=-1).indices.sort(-1).values

        for values, bias in zip(logits, biases):
            values = values.float()
            own, scale = choice(values, bias), smallest * values.abs().max(-1, keepdim=True).values
            for _ in range(16):
                noise = 2 * torch.rand(values.shape, generator=generator) - 1
                if not torch.equal(choice(values + scale * noise, bias), own):
                    return 0.0
        return math.inf

    @staticmethod
    def switched_off(values):
        return dict(values, rope_parameters=deepseek_rope(0.0), routed_scaling_factor=1.0)


class DeepSeekV2(DeepSeek2):
    config_class, model_class = transformers.DeepseekV2Config, transformers.DeepseekV2ForCausalLM
    file_architecture = "deepseek2"
    variants = {"deepseek2_lite": ("bpe", dict(
        DeepSeek2.sizes, q_lora_rank=None, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        norm_topk_prob=False, routed_scaling_factor=1.5, rope_parameters=deepseek_rope(0.707)))}


class DeepSeekV3(DeepSeek2):
    config_class, model_class = transformers.DeepseekV3Config, transformers.DeepseekV3ForCausalLM
    file_architecture = "deepseek2"
    variants = {"deepseek2": ("bpe", dict(
        DeepSeek2.sizes, q_lora_rank=48, num_local_experts=8, n_group=4, topk_group=2, norm_topk_prob=True,
        routed_scaling_factor=2.5, rope_parameters=deepseek_rope(1.0)))}


ARCHITECTURES = {"gpt-oss": GptOss, "deepseek-v2": DeepSeekV2, "deepseek-v3": DeepSeekV3}
VARIANTS = {name: (architecture, *row) for architecture, kind in ARCHITECTURES.items()
            for name, row in kind.variants.items()}


def file_architecture(architecture):
    return getattr(ARCHITECTURES.get(architecture), "file_architecture", architecture)


def fill_buffers(model, architecture, generator):
    """Those that are no parameters, but part of the file."""
    for _, buffer in getattr(ARCHITECTURES.get(architecture), "buffers", lambda _: [])(model):
        buffer.copy_((0.1 * torch.randn(buffer.shape, generator=generator)).to(torch.bfloat16).to(torch.float32))


def add_tensors(writer, model, architecture):
    for name, value in ARCHITECTURES[architecture].tensors(model):
        writer.add_tensor(name, np.ascontiguousarray(value, np.float32))
