#!/usr/bin/env python3
"""Writes the seeds of the GGUF reader's fuzzer to fuzz/corpus/gguf: small files, most of them valid, that together
use every value type, nested arrays, alignments, split sets and the common ways to be wrong. Standard library only;
the output depends on nothing but this file.

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


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "gguf"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
