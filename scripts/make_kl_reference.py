#!/usr/bin/env python3
"""Writes a model's exact (f32) log-probabilities on windows of a text, to measure how far a fast path is from exact.

transformers (CPU, f32) reads the GGUF file, so the values are those of the file's own weights. Windows are cut as
llama-perplexity cuts them: the text's ids (with BOS if the model adds one) are split into windows of `--window` ids,
the first id of each window is replaced by BOS if the model adds one, and the second half of the window is scored:
positions window/2 ... window-2, each predicting the next id. Prints the perplexity over these positions.

Output, little-endian, for W windows of N ids and a vocabulary of V (not committed: 2 V bytes a scored position):
    "MKLR", u32 version = 1, u32 V, u32 N, u32 W, u32 first scored position (N / 2)
    u32 ids[W][N]                                          what the model was fed
    W * (N - 1 - N / 2) rows: f32 top, f32 step, u16 code[V]   log p(v) = top - code[v] * step
Rows are in order of window, then position. A row's probabilities sum to 1 within 1e-3 (divide by the sum); the rounding
of the codes alone causes a KL divergence below 1e-7.

    python scripts/make_kl_reference.py --model smollm2-135m --text /usr/share/common-licenses/GPL-3 --out FILE
"""

import argparse
import math
import struct
from pathlib import Path

import numpy as np
import torch

from make_model_goldens import load


def windows_of(tokenizer, text, window, count):
    ids = tokenizer(text)["input_ids"]
    bos = tokenizer.bos_token_id
    adds_bos = ids[0] == bos
    if len(ids) < window * count:
        raise SystemExit(f"the text has {len(ids)} ids, {window * count} are needed")
    windows = [ids[i * window:(i + 1) * window] for i in range(count)]
    if adds_bos:
        windows = [[bos] + ids[1:] for ids in windows]
    return windows


def encode(log_probabilities):
    """The row as top, step and codes; the step spans the row's whole range."""
    row = log_probabilities.numpy()
    top = np.float32(row.max())
    step = np.float32((row.max() - row.min()) / 65535)
    codes = np.clip(np.rint((top - row) / step), 0, 65535).astype("<u2")
    return struct.pack("<ff", top, step) + codes.tobytes()


@torch.no_grad()
def write_reference(model, windows, file):
    window, first = len(windows[0]), len(windows[0]) // 2
    loss, scored = 0.0, 0
    for number, ids in enumerate(windows):
        logits = model(torch.tensor([ids]), use_cache=False, logits_to_keep=window - first).logits[0, :-1]
        for position, row in enumerate(logits, first):
            row = torch.log_softmax(row.double(), -1)
            loss -= float(row[ids[position + 1]])
            scored += 1
            file.write(encode(row))
        print(f"window {number + 1}: perplexity so far {math.exp(loss / scored):.4f}", flush=True)
    return math.exp(loss / scored)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path, default=Path.home() / ".cache/minfer/models")
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    tokenizer, model = load(arguments.models, arguments.model)
    windows = windows_of(tokenizer, arguments.text.read_text(encoding="utf-8"), arguments.window, arguments.windows)
    with arguments.out.open("wb") as file:
        header = (1, model.config.vocab_size, arguments.window, len(windows), arguments.window // 2)
        file.write(struct.pack("<4s5I", b"MKLR", *header))
        file.write(np.array(windows, "<u4").tobytes())
        perplexity = write_reference(model, windows, file)
    print(f"{arguments.model}: perplexity {perplexity:.4f}")


if __name__ == "__main__":
    main()
