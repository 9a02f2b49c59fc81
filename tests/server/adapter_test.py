#!/usr/bin/env python3
"""LoRA adapters through the program: `--lora` of run and plan, sessions, and `lora` of a request, on the tiny llama with the
adapters of tests/golden/tiny, whose greedy tokens transformers and peft have given.

Usage: adapter_test.py PROGRAM [unittest options].
"""

import concurrent.futures
import json
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from served import TIMEOUT_S, Served

TINY = Path(__file__).resolve().parents[1] / "golden" / "tiny"
LLAMA = TINY / "llama.gguf"
A, B = TINY / "llama.a.lora.gguf", TINY / "llama.b.lora.gguf"
GOLDEN = json.loads((TINY / "llama.lora.json").read_text())
PROGRAM = ""


def minfer(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL)


class CommandLine(unittest.TestCase):
    def run_text(self, *options):
        result = minfer("run", LLAMA, "the", "--raw", "--temp", "0", "-n", "12", "--kv-type", "f32", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, code, says, *arguments):
        result = minfer(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertIn(says, result.stderr)

    def test_scales_and_order(self):
        plain = self.run_text()
        with_a = self.run_text("--lora", A)
        self.assertNotEqual(with_a, plain)
        self.assertEqual(self.run_text("--lora", f"{A}:1"), with_a)
        self.assertEqual(self.run_text("--lora", f"{A}:1.0", "--lora", f"{B}:0"), with_a)
        self.assertEqual(self.run_text("--lora", f"{A}:0"), plain)
        both = self.run_text("--lora", A, "--lora", B)
        self.assertNotIn(both, (plain, with_a))
        self.assertEqual(self.run_text("--lora", B, "--lora", A), both)

    def test_the_plan_counts_them(self):
        def weights(*options):
            result = minfer("plan", LLAMA, "--json", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)["devices"][-1]["weights_bytes"]

        own = sum(4 * rows * 4 for rows in (3 * (64 + 64) + 3 * (64 + 32) + 3 * (64 + 64) + (64 + 288),))
        more = weights("--lora", A) - weights()
        self.assertGreaterEqual(more, own)
        self.assertLess(more, 8 * own)  # panels have whole rows of 16

    def test_sessions_are_of_their_adapters(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/s"
            self.run_text("--session", path, "--lora", f"{A}:0.5")
            self.run_text("--session", path, "--lora", f"{A}:0.5")
            for options in ((), ("--lora", A), ("--lora", f"{B}:0.5")):
                self.refused(3, "llama.a.lora:0.5", "run", LLAMA, "the", "--raw", "--session", path, "-n", "1", "--kv-type", "f32",
                             *options)

    def test_wrong_adapters(self):
        self.refused(3, "general.type is 'model', expected 'adapter'", "run", LLAMA, "hi", "--raw", "--lora", LLAMA)
        self.refused(3, "the adapter is of architecture qwen2, the model of llama", "run", LLAMA, "hi", "--raw", "--lora",
                     TINY / "qwen2.a.lora.gguf")
        self.refused(5, "/nowhere/a.gguf", "plan", LLAMA, "--lora", "/nowhere/a.gguf")
        self.refused(3, "a scale of 1000000000; expected -1000 to 1000", "bench", LLAMA, "--lora", f"{A}:1e9")


class Requests(unittest.TestCase):
    def post(self, path, body):
        request = urllib.request.Request(self.server.address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def setUp(self):
        self.server = Served(PROGRAM, str(LLAMA), "--lora", str(A), "--lora", f"{B}:0.25", "--parallel", "4", "-c", "128",
                             "--kv-type", "f32").wait_until_ok()
        self.addCleanup(self.server.kill)

    def answer(self, **fields):
        body = {"prompt": GOLDEN["prompt"], "max_tokens": 16, "temperature": 0, "ignore_eos": True, **fields}
        return self.post("/v1/completions", body)

    def test_each_request_has_its_own(self):
        with urllib.request.urlopen(self.server.address + "/lora-adapters", timeout=TIMEOUT_S) as answer:
            self.assertEqual(json.load(answer), [{"id": 0, "path": str(A), "scale": 1.0}, {"id": 1, "path": str(B), "scale": 0.25}])
        runs = GOLDEN["runs"] * 3  # the second time some find the prefix of the first
        fields = [[{"id": i, "scale": scale} for i, scale in enumerate(run["scales"])] for run in runs]
        with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
            answers = list(pool.map(lambda lora: self.answer(lora=lora), fields))
        whole = self.answer(lora=[{"id": 0}])
        for run, answer in zip(runs, answers):
            with self.subTest(scales=run["scales"]):
                expected = self.post("/detokenize", {"tokens": run["greedy"]})["content"]
                self.assertEqual(answer["choices"][0]["text"].strip(), expected.strip())
        self.assertEqual(whole["choices"][0]["text"], answers[0]["choices"][0]["text"])
        self.assertNotEqual(self.answer()["choices"][0]["text"], whole["choices"][0]["text"])  # the command line's

    def test_embeddings_have_them_too(self):
        def embedding(**fields):
            return self.post("/v1/embeddings", {"input": GOLDEN["prompt"], **fields})["data"][0]["embedding"]

        with_a = embedding(lora=[{"id": 0}])
        self.assertEqual(embedding(lora=[{"id": 1, "scale": 0.25}, {"id": 0}]), embedding())  # the command line's
        self.assertEqual(len({str(vector) for vector in (with_a, embedding(), embedding(lora=[]))}), 3)
        error = self.post("/v1/embeddings", {"input": "a", "lora": [{"id": 7}]})["error"]
        self.assertEqual(error["param"], "lora[0].id")

    def test_what_a_wrong_one_is_told(self):
        error = self.answer(lora=[{"id": 2}])["error"]
        self.assertEqual(error["param"], "lora[0].id")
        self.assertIn("expected an id of 0 to 1", error["message"])
        self.assertEqual(self.answer(lora=[{"id": 0, "scale": "x"}])["error"]["param"], "lora[0].scale")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
