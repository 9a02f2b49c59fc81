#!/usr/bin/env python3
"""Tests of what the command line says about memory and time: `minfer plan`, --memory-limit, --op-timing.

Usage: plan_cli_test.py PROGRAM [unittest options]. On the tiny models of tests/golden, whose sizes are known; part of the
layers on smollm2-135m.
"""

import json
import math
import os
import re
import struct
import sys
import unittest

from program import TINY, ProgramTest

SMOLLM = "smollm2-135m"
LLAMA = TINY / "llama.gguf"
TEXT = "It was the best of times, it was the worst of times; we had everything before us. " * 40


class Plan(ProgramTest):
    KEYS = ["name", "memory_bytes", "weights_bytes", "kv_bytes", "activation_bytes", "scratch_bytes", "total_bytes", "fits"]

    def plan(self, *arguments):
        result = json.loads(self.ok("plan", *arguments, "--json").out)
        self.assertEqual(list(result)[:3], ["context", "parallel", "devices"])
        for device in result["devices"]:
            self.assertEqual(list(device)[:8], self.KEYS)
            self.assertEqual(device["total_bytes"], sum(device[key] for key in self.KEYS[2:6]))
            self.assertEqual(device["fits"], device["total_bytes"] <= device["memory_bytes"])
            self.assertEqual(device["weights_bytes"], sum(layout["bytes"] for layout in device["layouts"]))
        return result

    def test_numbers(self):
        result = self.plan(LLAMA)
        self.assertEqual((result["context"], result["parallel"]), (512, 1))  # the model's own
        (cpu,) = result["devices"]
        self.assertEqual((cpu["name"], cpu["fits"], cpu["layers_that_fit"]), ("cpu", True, 3))
        # 3 layers, 2 KV heads of 16 keys and 16 values
        position = 3 * 2 * 32
        self.assertEqual(cpu["kv_bytes"], 512 * position * 2)
        for arguments, tokens, size in [(["-c", "1000"], 1024, 2), (["--ctx", "64", "--parallel", "5"], 5 * 64, 2),
                                        (["-c", "64", "--kv-type", "f32"], 64, 4), (["-c", "64", "--kv-type", "k=f32,v=f16"], 64, 3)]:
            (cpu,) = self.plan(LLAMA, *arguments)["devices"]
            self.assertEqual(cpu["kv_bytes"], tokens * position * size, arguments)
        text = self.ok("plan", LLAMA, "--parallel", "2").out
        for words in ("context 512 tokens, 2 sequences", "weights", "KV cache", "activations", "scratch", "total", "available", "fits"):
            self.assertIn(words, text)
        self.assertRegex(text, r"fits +yes")
        notice = "larger than the 512 that the model was trained for"
        self.assertIn(notice, self.ok("plan", LLAMA, "-c", "513", "--json").err)
        self.assertEqual(self.ok("plan", LLAMA, "-c", "512").err, "")
        self.refused(2, "'0' is not a whole number", "plan", LLAMA, "--parallel", "0")
        self.refused(2, "--explain", "plan", LLAMA, "--explain")
        self.refused(2, "no option is called '--gpu-layers'", "plan", LLAMA, "--gpu-layers", "1")
        notice = "minfer: --batch-tokens 513: no step has more than the 512 tokens of the context\n"
        self.assertEqual(self.ok("plan", LLAMA, "-c", "512", "--batch-tokens", "513").err, notice)
        self.assertEqual(self.ok("plan", LLAMA, "-c", "512", "--batch-tokens", "512").err, "")
        self.assertIn(notice, self.ok("run", LLAMA, "the", "--raw", "-n", "1", "-c", "512", "--batch-tokens", "513").err)

    def test_gpu_layers_without_a_gpu(self):
        found = re.search(r"^cuda: unavailable: (.+)$", self.ok("plan", LLAMA).out, re.MULTILINE)
        if not found:
            self.skipTest("there is a GPU")
        run = ["run", LLAMA, "the", "--raw", "-n", "1", "--gpu-layers"]
        self.refused(2, f"--gpu-layers 2: there is no GPU; cuda: {found[1]}", *run, "2")
        self.refused(2, "--gpu-layers 4: expected auto, or 0 to the model's 3 layers", *run, "4")
        for layers in ("0", "auto"):
            self.ok(*run, layers)

    def test_memory_limit(self):
        (cpu,) = self.plan(LLAMA, "-c", "512")["devices"]
        enough, short = str(cpu["total_bytes"]), str(cpu["total_bytes"] - 1)
        for limit, fits in [(enough, True), (short, False), ("1K", False), ("3kib", False), ("1G", True), ("1GiB", True)]:
            (given,) = self.plan(LLAMA, "-c", "512", "--memory-limit", limit)["devices"]
            self.assertEqual(given["fits"], fits, limit)
        self.assertEqual(self.plan(LLAMA, "--memory-limit", "3kib")["devices"][0]["memory_bytes"], 3072)
        self.assertRegex(self.ok("plan", LLAMA, "--memory-limit", "1K").out, r"fits +no; nor would the embedding")
        self.ok("run", LLAMA, "the", "--raw", "-n", "1", "-c", "512", "--memory-limit", enough)
        said = self.refused(4, "by --memory-limit", "run", LLAMA, "the", "--raw", "-c", "512", "--memory-limit", short)
        self.assertRegex(said, r"needs \d+ MB on cpu \(weights \d+, KV cache \d+, activations \d+, scratch \d+\).*smaller context \(-c\)")
        self.assertEqual(self.ok("run", LLAMA, "the", "--raw", "--temp", "0", "-n", "8", "--strict").out,
                         self.ok("run", LLAMA, "the", "--raw", "--temp", "0", "-n", "8").out)
        self.ok("plan", LLAMA, "--strict")
        self.refused(4, "take a smaller or more quantized model", "bench", LLAMA, "--memory-limit", "1000")
        self.refused(4, "by --memory-limit", "perplexity", LLAMA, self.write("text.txt", TEXT), "-c", "64", "--memory-limit", "1000")
        for wrong in ("0", "-1", "1.5G", "4X", "K", "1KK", "5i", "9000000T", "99999999999999999999"):
            self.refused(2, "is no number of bytes", "plan", LLAMA, "--memory-limit=" + wrong)

    def test_a_draft_model_gets_what_is_left(self):
        def needed(*arguments):
            said = self.refused(4, "by --memory-limit", *arguments, "--memory-limit", "1000")
            return 1000 + int(re.search(r"by --memory-limit: (\d+) bytes too little", said)[1])

        plain = ["run", LLAMA, "the", "--raw", "-n", "4", "-c", "512"]
        drafted = [*plain, "--speculate", f"draft:{LLAMA}"]
        target = needed(*drafted)
        # With nothing left, as with too little, it is refused by name.
        for left in (0, 1, 1000):
            said = self.refused(4, "draft model, beside the", *drafted, "--memory-limit", str(target + left))
            self.assertIn("has 0 MB by --memory-limit", said)
        self.ok(*drafted, "--memory-limit", str(2 * target))

    def test_measuring_counts_against_the_limit(self):
        for arguments in (["bench", LLAMA, "-r", "1", "-p", "16", "-n", "4", "-t", "2"],
                          ["run", LLAMA, "the", "--raw", "-n", "4", "-t", "2", "--op-timing"]):
            said = self.refused(4, "more than the 20000000 of --memory-limit", *arguments, "--memory-limit", "20M")
            measuring = int(re.search(r"measuring the limits of cpu takes (\d+) bytes", said)[1])
            # Before the model is loaded: it and the measuring don't add up.
            taken = self.peak_anonymous(*arguments, "--memory-limit", str(measuring))
            self.assertLess(taken, measuring + 8_000_000, arguments)

    def test_the_program_takes_what_the_plan_says(self):
        """The whole program, with its context full of a prompt, against the plan."""
        context = 2048
        for name in (SMOLLM, "gemma3-270m", "qwen2.5-coder-0.5b"):
            with self.subTest(name=name):
                self.model(name)
                sentence = len(self.ok("tokenize", name, TEXT).out.splitlines()) / 40
                path = self.write("prompt.txt", TEXT * 2 + TEXT[:len(TEXT) // 40] * int((context - 8) / sentence - 80))
                self.assertGreater(len(self.ok("tokenize", name, "-f", path).out.splitlines()), context - 64)
                (cpu,) = self.plan(name, "-c", str(context))["devices"]
                planned = cpu["total_bytes"] - sum(use["bytes"] for use in cpu["layouts"] if use["mapped"])
                taken = self.peak_anonymous("run", name, "-f", path, "--raw", "-n", "2", "-c", str(context))
                print(f"{name}: planned {planned / 1e6:.1f} MB, taken {taken / 1e6:.1f} MB: {taken / planned:.4f}")
                self.assertAlmostEqual(taken / planned, 1.0, delta=0.03)

    def test_a_plan_takes_little(self):
        self.assertLess(self.peak_anonymous("plan", LLAMA), 16_000_000)

    def test_part_of_the_layers(self):
        name = self.model(SMOLLM)
        (cpu,) = self.plan(name)["devices"]
        counts = [self.plan(name, "--memory-limit", str(cpu["total_bytes"] * part // 8))["devices"][0]["layers_that_fit"]
                  for part in range(3, 8)]
        self.assertEqual(counts, sorted(counts))
        self.assertTrue(0 < counts[1] < 30, counts)

    def test_sizes_that_would_overflow(self):
        self.refused(4, "take a smaller context (-c)", "plan", self.model(SMOLLM), "-c", "1073741824", "--parallel", "64")
        # A header may ask for 4096 KV heads of 4096; its tensors are holes of a file.
        strings = {"general.architecture": "llama"}
        numbers = {"llama.context_length": 1 << 30, "llama.embedding_length": 1, "llama.block_count": 1,
                   "llama.feed_forward_length": 1, "llama.attention.head_count": 4096, "llama.attention.head_count_kv": 4096,
                   "llama.attention.key_length": 4096, "llama.vocab_size": 8}
        wide = 1 << 24
        shapes = {"token_embd.weight": [1, 8], "output_norm.weight": [1], "blk.0.attn_norm.weight": [1],
                  "blk.0.attn_q.weight": [1, wide], "blk.0.attn_k.weight": [1, wide], "blk.0.attn_v.weight": [1, wide],
                  "blk.0.attn_output.weight": [wide, 1], "blk.0.ffn_norm.weight": [1], "blk.0.ffn_gate.weight": [1, 1],
                  "blk.0.ffn_up.weight": [1, 1], "blk.0.ffn_down.weight": [1, 1]}

        def text(value):
            return struct.pack("<Q", len(value)) + value.encode()

        head = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(strings) + len(numbers) + 1)
        for key, value in strings.items():
            head += text(key) + struct.pack("<I", 8) + text(value)
        for key, value in numbers.items():
            head += text(key) + struct.pack("<II", 4, value)
        head += text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)
        offset = 0
        for name, shape in shapes.items():
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
            offset += -(-4 * math.prod(shape) // 32) * 32
        path = self.write("wide.gguf", head)
        os.truncate(path, len(head) + 32 + offset)
        self.assertEqual(self.plan(path, "-c", "64")["devices"][0]["kv_bytes"], 2 * 64 * wide * 2)
        most = ["-c", "1073741824", "--parallel", "64", "--kv-type", "f32", "--batch-tokens", "65536"]
        self.refused(4, "KV cache bytes: 8589934592 * 1073741824 is more than a 64-bit size can be", "plan", path, *most)
        self.refused(4, "the KV cache of sequences of 1073741824 tokens takes", "plan", path, "-c", "1073741824")
        self.plan(path, "-c", "4194304", "--batch-tokens", "65536")


class OpTiming(ProgramTest):
    ROW = r"^(\S.*?) +(\d+) +(\d+\.\d{4}) +(\d+\.\d)% +\d+\.\d +\d+\.\d +\d+\.\d\d +\d+\.\d +\d+\.\d{3}$"
    SUM = r"^ops (\d+\.\d{4}) s, steps (\d+\.\d{4}) s by the clock: \d+\.\d\d%$"

    def tables(self, text):
        """For each phase: its steps, its rows, the sum of the ops and the clock's time."""
        tables = {}
        for part in re.split(r"\n\n", text)[1:]:
            phase, steps = re.match(r"(prompt|decode): (\d+) steps of \d+ tokens in all\n", part).groups()
            rows = [(row[0], int(row[1]), float(row[2])) for row in re.findall(self.ROW, part, re.M)]
            ((ops, clock),) = re.findall(self.SUM, part, re.M)
            tables[phase] = (int(steps), rows, float(ops), float(clock))
        return tables

    def test_run(self):
        self.assertNotIn("op timing", self.ok("run", LLAMA, "the", "--raw", "-n", "2").err)
        result = self.ok("run", LLAMA, "the and the", "--raw", "-n", "9", "--temp", "0", "--op-timing")
        self.assertEqual(result.out, self.ok("run", LLAMA, "the and the", "--raw", "-n", "9", "--temp", "0").out)
        self.assertRegex(result.err, r"op timing of cpu; limits: read \d+\.\d GB/s, 8-bit dots \d+ GOPS, float \d+ GFLOP/s\n")
        tables = self.tables(result.err)
        self.assertEqual((tables["prompt"][0], tables["decode"][0]), (1, 8))
        for steps, rows, ops, clock in tables.values():
            self.assertAlmostEqual(ops, clock, delta=0.03 * clock + 0.0001)
            self.assertAlmostEqual(sum(row[2] for row in rows), ops, delta=0.0001 * (len(rows) + 1))
            calls = {name: count for name, count, _ in rows}
            self.assertEqual(calls["linear_glu ffn_gate+ffn_up F32"], 3 * steps)
            self.assertEqual(calls["linear output F32"], steps)

    def test_a_draft_model_has_tables_of_its_own(self):
        arguments = ["run", LLAMA, "abcabcabc", "--raw", "-n", "9", "--temp", "0", "--op-timing"]
        result = self.ok(*arguments, "--speculate", f"draft:{LLAMA}", "--draft-depth", "1")
        target, draft = result.err.split("op timing of cpu, draft model; limits:")
        self.assertEqual(target.count("op timing of cpu; limits:"), 1)
        drafted = int(re.search(r"of (\d+) drafted", target)[1])
        # Each guess is a step of the draft model, the first with the prompt.
        steps = {name: table[0] for name, table in self.tables(draft).items()}
        self.assertEqual(sum(steps.values()), drafted)
        target_steps = {name: table[0] for name, table in self.tables(target).items()}
        self.assertLess(sum(target_steps.values()), 9)

    def test_bench_and_perplexity(self):
        result = self.ok("bench", LLAMA, "-p", "16", "-n", "4", "-d", "32", "-r", "2", "--op-timing")
        tables = self.tables(result.err)
        self.assertEqual((tables["prompt"][0], tables["decode"][0]), (2, 8))  # without warm-up and depth
        self.assertIn("| pp16@d32 |", result.out)
        result = self.ok("perplexity", LLAMA, self.write("text.txt", TEXT), "-c", "64", "--windows", "2", "--op-timing")
        self.assertEqual(list(self.tables(result.err)), ["prompt"])


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
