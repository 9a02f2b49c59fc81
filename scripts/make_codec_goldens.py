#!/usr/bin/env python3
"""Makes tests/golden/codecs/<type>.bin: random and edge-case blocks with the floats that they decode to.

Needs numpy and the `gguf` package, whose numpy decoders are the oracle (Q8_K, which it can't decode, is decoded here).
The same seed gives the same files, byte for byte. File format: tests/golden/README.md.

    python scripts/make_codec_goldens.py [OUTPUT_FOLDER]
"""

import struct
import sys
import zlib
from pathlib import Path

import gguf
import numpy as np

# Byte offsets of the half-precision scales in each block.
HALF_FIELDS = {
    "F32": [], "F16": [], "BF16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "Q8_K": [], "IQ4_NL": [0],
    "IQ4_XS": [0], "MXFP4": [],
}
RANDOM_BLOCKS = {32: 24, 256: 5}
Q8_K_SIZE = (256, 292)
# Scales put into the edge-case blocks: signed, denormal, smallest, largest, both zeros.
EDGE_SCALES = [1.0, -1.0, 0.0, -0.0, 6.0e-8, -5.0e-5, 6.2e-5, 65504.0, 0.333]


def block_size(name):
    if name == "Q8_K":
        return Q8_K_SIZE
    return gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]


def put_half(block, offset, value):
    block[offset:offset + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)


def plain_bits(name, rng):
    """Every kind of F16 and BF16 value but NaN (whose bits conversions may change), or floats."""
    if name == "F32":
        edges = np.array([0.0, -0.0, 1.0, -1.5, 1e-45, -1e-40, 3.4e38, np.inf, -np.inf], np.float32)
        return np.concatenate([edges, rng.standard_normal(64).astype(np.float32)]).view(np.uint8)
    infinity = 0x7C00 if name == "F16" else 0x7F80
    edges = [0, 1, 2, 0x3FF, 0x400, 0x7F, 0x80, 0x3C00, 0x3F80, infinity - 1, infinity]
    bits = np.array(edges + [edge | 0x8000 for edge in edges], np.uint16)
    bits = np.concatenate([bits, rng.integers(0, infinity + 1, 500).astype(np.uint16)])
    bits[-250:] |= 0x8000
    return bits.view(np.uint8)


def make_blocks(name, rng):
    elements, size = block_size(name)
    if elements == 1:
        return plain_bits(name, rng).reshape(-1, size)
    blocks = []
    for _ in range(RANDOM_BLOCKS[elements]):
        block = rng.integers(0, 256, size).astype(np.uint8)
        for offset in HALF_FIELDS[name]:
            put_half(block, offset, rng.standard_normal() * 10.0 ** rng.integers(-4, 2))
        blocks.append(block)
    for index, scale in enumerate(EDGE_SCALES):  # all quants 0, all ones, or random, with each edge scale
        fill = [np.zeros(size, np.uint8), np.full(size, 0xFF, np.uint8), rng.integers(0, 256, size).astype(np.uint8)]
        for block in (fill if elements == 32 else [fill[index % 3]]):
            for position, offset in enumerate(HALF_FIELDS[name]):
                put_half(block, offset, scale if position == 0 else EDGE_SCALES[-1 - index])
            blocks.append(block)
    blocks = np.stack(blocks)
    if name == "Q8_K":
        scales = np.array(([0.5, -1.25, 1e-40, 0.0, -0.0, 3e36] * len(blocks))[:len(blocks)], np.float32)
        scales[:RANDOM_BLOCKS[256]] = rng.standard_normal(RANDOM_BLOCKS[256])
        blocks[:, :4] = scales.view(np.uint8).reshape(-1, 4)
    if name == "MXFP4":
        exponents = np.concatenate([[0, 1, 2, 3, 127, 128, 200, 253], rng.integers(100, 140, len(blocks))])
        blocks[:, 0] = exponents[:len(blocks)]
        # The largest exponents, with codes small enough to stay finite: 1.5 at most.
        top = np.array([[254] + [0x30, 0x21] * 8, [255] + [0x01, 0x90] * 8], np.uint8)
        blocks = np.concatenate([blocks, top])
    return blocks


def decode(name, blocks):
    if name == "Q8_K":
        scale = np.ascontiguousarray(blocks[:, :4]).view(np.float32)
        return scale * blocks[:, 4:260].view(np.int8).astype(np.float32)
    if name == "F32":
        return np.ascontiguousarray(blocks).view(np.float32)
    if name == "F16":
        return np.ascontiguousarray(blocks).view(np.float16).astype(np.float32)
    with np.errstate(over="ignore"):  # a large exponent of MXFP4 overflows to infinity, and must
        return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/codecs")
    folder.mkdir(parents=True, exist_ok=True)
    for name in HALF_FIELDS:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        elements, size = block_size(name)
        blocks = make_blocks(name, rng)
        values = np.ascontiguousarray(decode(name, blocks), np.float32).reshape(-1)
        assert values.size == len(blocks) * elements and not np.isnan(values).any(), name
        header = struct.pack("<4sIII", b"MCOD", elements, size, len(blocks))
        path = folder / f"{name.lower()}.bin"
        path.write_bytes(header + blocks.tobytes() + values.tobytes())
        print(f"{path.name}: {len(blocks)} blocks, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
