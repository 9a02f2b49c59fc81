#!/usr/bin/env python3
"""Makes the encoders of tests/golden/tiny: tiny random models as f32 GGUF files with the hidden states and the pooled
vectors that transformers (CPU, f32) computes for a few texts. Formats: tests/golden/README.md.

    python scripts/make_tiny_encoders.py [--out FOLDER] [VARIANT ...]
"""

import json
import math

import gguf
import numpy as np
import torch
import transformers

import tiny_extra

TEXT_TOKENS = (1, 2, 37, 128)   # of the texts; 128 is more than one page of the cache
SEED = 5
WORDS = ["the", "and", "time", "water", "house", "light", "model", "text", "small", "green", "river", "stone", "cloud"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?-"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NORMAL, UNKNOWN, CONTROL = 1, 2, 3

VOCABULARY = SPECIAL + list(LETTERS) + ["##" + letter for letter in LETTERS] + WORDS
SIZES = dict(vocab_size=len(VOCABULARY), num_hidden_layers=3, num_attention_heads=4, type_vocab_size=2,
             layer_norm_eps=1e-6)
VARIANTS = {
    "bert": ("bert", gguf.PoolingType.CLS, transformers.BertConfig, transformers.BertModel, dict(
        SIZES | dict(num_attention_heads=3), hidden_size=48, intermediate_size=80, max_position_embeddings=128, hidden_act="gelu")),
    "nomic_bert": ("nomic-bert", gguf.PoolingType.MEAN, transformers.NomicBertConfig, transformers.NomicBertModel, dict(
        SIZES, hidden_size=64, intermediate_size=96, max_position_embeddings=160, hidden_act="silu",
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0})),
}


def make_model(config_class, model_class, values):
    extra = {"add_pooling_layer": False}
    model = model_class(config_class(**values, attn_implementation="eager"), **extra).eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = torch.randn(parameter.shape, generator=generator)
            if "norm" in name.lower() and name.endswith("weight"):
                value = 0.2 * value + 1.0
            elif name.endswith("bias"):
                value *= 0.3
            elif "embeddings" not in name:
                value *= 1.5 / math.sqrt(parameter.shape[-1])
            # Few mantissa bits: the files convert to BF16 without loss.
            parameter.copy_(value.to(torch.bfloat16).to(torch.float32))
    return model


def add_vocabulary(writer):
    """WordPiece as the converter writes it: a word's first piece has a mark, the others have lost theirs."""
    def piece(token):
        if token in SPECIAL:
            return token
        return token[2:] if token.startswith("##") else "▁" + token

    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece(token) for token in VOCABULARY])
    writer.add_token_types([UNKNOWN if token == "[UNK]" else CONTROL if token in SPECIAL else NORMAL
                            for token in VOCABULARY])
    for add, token in ((writer.add_pad_token_id, "[PAD]"), (writer.add_unk_token_id, "[UNK]"),
                       (writer.add_bos_token_id, "[CLS]"),
                       (writer.add_sep_token_id, "[SEP]"), (writer.add_eos_token_id, "[SEP]"),
                       (writer.add_mask_token_id, "[MASK]")):
        add(VOCABULARY.index(token))
    writer.add_token_type_count(2)


def add_parameters(writer, values, pooling):
    writer.add_type("model")
    writer.add_context_length(values["max_position_embeddings"])
    writer.add_embedding_length(values["hidden_size"])
    writer.add_block_count(values["num_hidden_layers"])
    writer.add_feed_forward_length(values["intermediate_size"])
    writer.add_head_count(values["num_attention_heads"])
    writer.add_layer_norm_eps(values["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    if "rope_parameters" in values:
        writer.add_rope_freq_base(values["rope_parameters"]["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


TENSORS = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "self_attn.o_proj": "attn_output", "post_attention_layernorm": "attn_output_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_mlp_layernorm": "layer_output_norm",
}


def tensors(model):
    parameters = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    for name, value in parameters.items():
        module, kind = name.rsplit(".", 1)
        layer = ""
        if "layer" in module.split(".")[:-1] or module.startswith("layers."):
            numbers = [part for part in module.split(".") if part.isdigit()]
            layer, module = f"blk.{numbers[0]}.", module.split(f".{numbers[0]}.", 1)[1]
        if module in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
            if module == "self_attn.q_proj":
                parts = [parameters[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
                yield f"{layer}attn_qkv.weight", np.concatenate(parts)
            continue
        yield f"{layer}{TENSORS[module]}.{kind}", value


@torch.no_grad()
def make_variant(name, folder):
    architecture, pooling, config_class, model_class, values = VARIANTS[name]
    model = make_model(config_class, model_class, values)
    path = folder / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny {architecture}")
    add_parameters(writer, values, pooling)
    add_vocabulary(writer)
    for tensor, value in tensors(model):
        writer.add_tensor(tensor, np.ascontiguousarray(value, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    numbers = np.random.default_rng(SEED)
    texts = []
    for count in TEXT_TOKENS:
        ids = [int(i) for i in numbers.integers(len(SPECIAL), len(VOCABULARY), count)]
        ids[0], ids[-1] = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")
        hidden = model(torch.tensor([ids])).last_hidden_state[0]
        double = make_model(config_class, model_class, values).double()(torch.tensor([ids])).last_hidden_state[0]
        error = float((hidden - double).abs().max() / hidden.abs().max())
        assert error < 1e-5, error
        vector = hidden[0] if pooling == gguf.PoolingType.CLS else hidden.double().mean(0)
        floats = [[float(str(np.float32(x))) for x in row] for row in (hidden[-1], vector)]
        texts.append({"ids": ids, "last": floats[0], "pooled": floats[1]})
    golden = {"model": path.name, "architecture": architecture, "seed": SEED, "texts": texts}
    (folder / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")).replace('},{', '},\n{') + "\n")
    print(f"{name}: {path.stat().st_size} bytes", flush=True)


def main():
    tiny_extra.make_all(VARIANTS, make_variant)


if __name__ == "__main__":
    main()
