#!/usr/bin/env python3
"""Writes the seeds of the GGUF reader's fuzzer to fuzz/corpus/gguf: small files, most of them valid, that together
use every value type, nested arrays, alignments, split sets and the common ways to be wrong. Standard library only;
the output depends on nothing but this file. malformed() has the damaged models that tests/cli/malformed_cli_test.py
gives to the program.

Usage: make_gguf_corpus.py [FOLDER]
"""

import pathlib
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    """A value's encoding; an array's content is (element type, list)."""
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        element, items = content
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, item) for item in items)
    return struct.pack("<" + CODES[kind], content)


def gguf(entries, tensors=(), data_bytes=0, version=3, alignment=32, magic=b"GGUF"):
    """entries: (key, type, content); tensors: (name, shape, element type, offset)."""
    out = magic + struct.pack("<IQQ", version, len(tensors), len(entries))
    for key, kind, content in entries:
        out += string(key) + struct.pack("<I", kind) + value(kind, content)
    for name, shape, dtype, offset in tensors:
        out += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, dtype, offset)
    out += bytes(-len(out) % alignment)
    return out + bytes(i % 251 for i in range(data_bytes))


def split_set(first, second):
    """The fuzzer's form of a set of two parts."""
    return b"S" + struct.pack("<I", len(first)) + first + second


def part(number, count=2, total=2, tensor="t"):
    entries = [("split.no", U16, number), ("split.count", U16, count), ("split.tensors.count", I32, total)]
    return gguf(entries, [(f"{tensor}{number}", [2], 0, 0)], 8)


def seeds():
    scalars = [(f"s.{kind}", kind, 1) for kind in CODES] + [("s.text", STRING, "text")]
    arrays = [(f"a.{kind}", ARRAY, (kind, [0, 1, 1])) for kind in CODES]
    arrays.append(("a.words", ARRAY, (STRING, ["a", "", b"\xff\x00", "longer"])))
    nested = [("n", ARRAY, (ARRAY, [(U8, [1, 2]), (STRING, ["x"]), (ARRAY, [(BOOL, [1])])]))]
    architecture = ("general.architecture", STRING, "llama")
    tensors = [("a.weight", [32, 2], 8, 0), ("a.bias", [3], 0, 96), ("cube", [2, 2, 1, 2], 1, 128)]
    yield "empty", gguf([])
    yield "scalars", gguf(scalars)
    yield "arrays", gguf(arrays)
    yield "nested", gguf(nested)
    yield "tensors", gguf([architecture], tensors, 144)
    yield "version2", gguf([architecture], tensors, 144, version=2)
    yield "aligned64", gguf([("general.alignment", U32, 64)], [("a", [1], 0, 0), ("b", [4], 0, 64)], 80, alignment=64)
    yield "quantized", gguf([], [(f"q{d}", [256], d, 320 * i) for i, d in enumerate((2, 12, 14, 39, 41))], 1600)
    yield "split", split_set(part(0), part(1))
    yield "split_doubled", split_set(part(0), part(0))
    yield "split_twins", split_set(part(0), part(1, tensor="t").replace(b"t1", b"t0"))
    yield "version1", gguf([], version=1)
    yield "big_endian", gguf([], version=0x03000000)
    yield "wrong_magic", gguf([architecture], magic=b"tjgg")
    yield "overlap", gguf([], [("a", [9], 0, 0), ("b", [4], 0, 32)], 64)
    yield "twin_keys", gguf([architecture, architecture])
    yield "cut", gguf([architecture], tensors, 144)[:-1]
    yield "huge_counts", b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60)
    yield "overflow", gguf([], [("a", [1 << 32, 1 << 32], 0, 0)], 32)


def read_value(data, at, kind):
    """A value as value() takes it, and where it ends."""
    if kind == STRING:
        (size,) = struct.unpack_from("<Q", data, at)
        return bytes(data[at + 8:at + 8 + size]), at + 8 + size
    if kind == ARRAY:
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        items = []
        for _ in range(count):
            item, at = read_value(data, at, element)
            items.append(item)
        return (element, items), at
    return struct.unpack_from("<" + CODES[kind], data, at)[0], at + struct.calcsize(CODES[kind])


class Model:
    """A small valid file (version 3, alignment 32) taken apart, to be written again with something changed."""

    def __init__(self, data):
        _, _, tensors, entries = struct.unpack_from("<4sIQQ", data)
        at = 24
        self.entries = {}  # key -> (type, content)
        self.tensors = {}  # name -> (shape, element type, bytes)
        for _ in range(entries):
            key, at = read_value(data, at, STRING)
            (kind,) = struct.unpack_from("<I", data, at)
            content, at = read_value(data, at + 4, kind)
            self.entries[key.decode()] = (kind, content)
        infos = []
        for _ in range(tensors):
            name, at = read_value(data, at, STRING)
            (dims,) = struct.unpack_from("<I", data, at)
            shape = struct.unpack_from(f"<{dims}Q", data, at + 4)
            dtype, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * dims)
            at += 16 + 8 * dims
            infos.append((name.decode(), list(shape), dtype, offset))
        start = at + -at % 32
        ends = sorted(offset for *_, offset in infos)[1:] + [len(data) - start]
        for (name, shape, dtype, offset), end in zip(sorted(infos, key=lambda info: info[3]), ends):
            self.tensors[name] = (shape, dtype, data[start + offset:start + end])

    def write(self, entries=None, tensors=None, extra=(), alignment=32):
        """The file with some entries and tensors changed (None: left out); `extra` entries go behind."""
        entries = {**self.entries, **(entries or {})}
        tensors = {**self.tensors, **(tensors or {})}
        body = b""
        infos = []
        for name, tensor in tensors.items():
            if tensor is None:
                continue
            shape, dtype, content = tensor
            infos.append((name, shape, dtype, len(body)))
            body += content + bytes(-len(content) % alignment)
        pairs = [(key, *entry) for key, entry in entries.items() if entry is not None] + list(extra)
        return gguf(pairs, infos, alignment=alignment) + body

    def part(self, number, count, names=None):
        """Part `number` (from 0) of a split set: its share of the tensors, or those of `names`; part 0 has the keys."""
        chosen = list(self.tensors)[number::count] if names is None else names
        keys = [("split.no", U16, number), ("split.count", U16, count), ("split.tensors.count", I32, len(self.tensors))]
        tensors = {name: None for name in self.tensors if name not in chosen}
        entries = {} if number == 0 else {key: None for key in self.entries}
        return self.write(entries, tensors, keys)


# Keys that minfer does not read, and those that a file may leave out (or, then, has tensors of other shapes).
UNREAD = ("llama.vocab_size",)
OPTIONAL = ("llama.attention.head_count_kv", "llama.rope.dimension_count", "llama.rope.freq_base")


def malformed(data):
    """Damaged forms of a tiny llama model: (name, bytes, what a refusal says). Each class of trouble that files have
    been seen with: sizes that overflow, zero dimensions, wrong types, counts over limits, tokens that are none, shapes
    that the architecture does not have, weights that are no numbers, cut files."""
    model = Model(data)
    weight = "blk.0.ffn_up.weight"
    shape, dtype, content = model.tensors[weight]

    def with_tensor(shape=shape, dtype=dtype, content=content, name=weight):
        return model.write(tensors={name: (shape, dtype, content)})

    def with_entry(key, kind, content):
        return model.write({key: (kind, content)})

    yield "sizes_overflow", with_tensor([1 << 32, 1 << 32]), weight
    yield "size_over_63_bits", with_tensor([1 << 63, 1]), weight
    yield "bytes_overflow", with_tensor([1 << 62]), weight
    yield "zero_dimension", with_tensor([64, 0]), weight
    yield "no_dimension", with_tensor([]), weight
    yield "five_dimensions", with_tensor([64, 96, 1, 1, 1]), weight
    yield "swapped_shape", with_tensor(shape[::-1]), weight
    yield "narrow_shape", with_tensor([shape[0], shape[1] // 2]), weight
    yield "third_dimension", with_tensor([shape[0], shape[1] // 2, 2]), weight
    yield "unknown_element_type", with_tensor(dtype=99), weight
    yield "removed_element_type", with_tensor(dtype=4), weight
    yield "integer_weights", with_tensor(dtype=26), weight
    yield "rows_no_blocks", with_tensor([48, 128], dtype=12), weight
    yield "missing_tensor", model.write(tensors={weight: None}), weight
    yield "foreign_tensor", model.write(tensors={"blk.0.ssm_a": ([64], 0, bytes(256))}), "blk.0.ssm_a"
    yield "layer_beyond", model.write(tensors={"blk.9.ffn_up.weight": (shape, dtype, content)}), "blk.9.ffn_up.weight"
    yield "quantized_norm", with_tensor([64], 8, bytes(68), "output_norm.weight"), "the model gave 0"
    for word, number in (("nan", float("nan")), ("infinity", float("inf"))):
        changed = content[:400] + struct.pack("<f", number) + content[404:]
        yield f"weight_{word}", with_tensor(content=changed), f"tensor {weight} has"
        norm = bytearray(model.tensors["output_norm.weight"][2])
        struct.pack_into("<f", norm, 8, number)
        yield f"norm_{word}", with_tensor([64], 0, bytes(norm), "output_norm.weight"), "tensor output_norm.weight has"
    for key, (kind, content_of_key) in model.entries.items():
        if not key.startswith("llama.") or kind in (STRING, ARRAY) or key in UNREAD:
            continue
        if key not in OPTIONAL:
            yield f"{key}_missing", model.write({key: None}), key
        yield f"{key}_text", with_entry(key, STRING, "four"), key
        yield f"{key}_array", with_entry(key, ARRAY, (U32, [4] * 4000)), key
        yield f"{key}_zero", with_entry(key, kind, 0), key
        if kind == U32:
            yield f"{key}_huge", with_entry(key, U32, (1 << 32) - 1), key
            yield f"{key}_negative", with_entry(key, I32, -1), key
        else:
            yield f"{key}_nan", with_entry(key, kind, float("nan")), key
    yield "architecture_number", with_entry("general.architecture", U32, 7), "general.architecture"
    yield "architecture_unknown", with_entry("general.architecture", STRING, "nosuch"), "nosuch"
    yield "alignment_type", model.write(extra=[("general.alignment", U64, 32)]), "general.alignment"
    yield "alignment_text", model.write(extra=[("general.alignment", STRING, "32")]), "general.alignment"
    yield "alignment_zero", model.write(extra=[("general.alignment", U32, 0)]), "general.alignment"
    yield "alignment_odd", model.write(extra=[("general.alignment", U32, 48)]), "general.alignment"
    for key, entry in vocabulary_damage(model):
        yield "vocabulary_" + entry[0], model.write({key: entry[1]}), entry[2]
    for cut in (3, 20, 24, 300, len(data) // 2, len(data) - 1):
        yield f"cut_{cut}", data[:cut], ""


def vocabulary_damage(model):
    """(key, (name, entry, what is said)) of a SentencePiece vocabulary."""
    tokens = "tokenizer.ggml.tokens"
    texts = model.entries[tokens][1][1]
    scores = model.entries["tokenizer.ggml.scores"][1][1]
    types = model.entries["tokenizer.ggml.token_type"][1][1]
    byte = types.index(6)
    yield tokens, ("tokens_are_numbers", (ARRAY, (U32, [1] * len(texts))), tokens)
    yield tokens, ("tokens_are_one_text", (STRING, "a b"), tokens)
    yield tokens, ("tokens_missing", None, tokens)
    yield tokens, ("tokens_few", (ARRAY, (STRING, texts[:9])), "")
    yield tokens, ("byte_token_malformed", (ARRAY, (STRING, texts[:byte] + [b"<0xZZ>"] + texts[byte + 1:])), f"token {byte}")
    yield tokens, ("tokens_alike", (ARRAY, (STRING, texts[:20] + [texts[3]] + texts[21:])), "20")
    yield "tokenizer.ggml.scores", ("scores_few", (ARRAY, (F32, scores[:9])), "9 scores")
    yield "tokenizer.ggml.scores", ("scores_nan", (ARRAY, (F32, [float("nan")] * len(scores))), "score")
    yield "tokenizer.ggml.scores", ("scores_are_texts", (ARRAY, (STRING, texts)), "tokenizer.ggml.scores")
    yield "tokenizer.ggml.token_type", ("types_few", (ARRAY, (I32, types[:9])), "9 token types")
    yield "tokenizer.ggml.token_type", ("types_unknown", (ARRAY, (I32, [99] * len(types))), "type 99")
    yield "tokenizer.ggml.model", ("kind_unknown", (STRING, "nosuch"), "nosuch")
    yield "tokenizer.ggml.bos_token_id", ("bos_beyond", (U32, 1 << 30), "1073741824")


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "gguf"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
