#!/usr/bin/env python3
"""How fast the Python package `tokenizers` (Rust) makes ids of text on one thread, beside tokenizer_bench.

Usage: tokenizer_bench.py TOKENIZER TEXT...; TOKENIZER is a tokenizer.json, or one packed with xz. The documents are those
of tokenizer_bench. `encode_batch_fast` skips the offsets, which nobody asked for; one call takes all documents, so that
Python costs nothing.
"""

import lzma
import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers  # noqa: E402  (the variables are read when it loads)

DOCUMENT_BYTES = 4096
RUNS = 5


def documents(data):
    begin = 0
    while begin < len(data):
        line_end = data.find(b"\n", min(begin + DOCUMENT_BYTES, len(data)))
        end = len(data) if line_end < 0 else line_end + 1
        yield data[begin:end].decode("utf-8")
        begin = end


def main():
    path = sys.argv[1]
    with (lzma.open(path) if path.endswith(".xz") else open(path, "rb")) as packed:
        text = packed.read().decode("utf-8")
    start = time.perf_counter()
    tokenizer = tokenizers.Tokenizer.from_str(text)
    print(f"load: {(time.perf_counter() - start) * 1e3:.1f} ms")
    for name in sys.argv[2:]:
        with open(name, "rb") as file:
            data = file.read()
        parts = list(documents(data))
        rates = []
        for _ in range(RUNS + 1):
            start = time.perf_counter()
            encoded = tokenizer.encode_batch_fast(parts, add_special_tokens=False)
            rates.append(len(data) / 1e6 / (time.perf_counter() - start))
        ids = sum(len(one.ids) for one in encoded)
        print(f"{os.path.basename(name):24} {len(data):9} bytes {ids:8} ids   fresh {rates[0]:7.2f} MB/s"
              f"   warm {max(rates[1:]):7.2f} MB/s")


if __name__ == "__main__":
    main()
