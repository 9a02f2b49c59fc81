#!/usr/bin/env python3
"""Tests of the engine's options on the command line: sessions, shifting, speculation, streams that decode together.

Usage: engine_cli_test.py PROGRAM [unittest options]. All run on the tiny models of tests/golden.
"""

import json
import os
import sys
import unittest

from program import TINY, ProgramTest

LLAMA = TINY / "llama.gguf"
QWEN2 = TINY / "qwen2.gguf"
GREEDY = ["--raw", "--temp", "0"]


class Sessions(ProgramTest):
    def test_a_session_is_saved_and_gone_on_with(self):
        path = self.write("session.kv", "")
        os.remove(path)
        whole = self.ok("run", LLAMA, "abc", *GREEDY, "-n", "12").out.rstrip("\n")
        first = self.ok("run", LLAMA, "abc", *GREEDY, "-n", "5", "--session", path)
        self.assertTrue(whole.startswith(first.out.rstrip("\n")))
        size = os.path.getsize(path)
        again = self.ok("run", LLAMA, "x", *GREEDY, "-n", "5", "--session", path)
        self.assertRegex(again.err, r"went on after \d+ tokens of the session")
        self.assertGreater(os.path.getsize(path), size)

    def test_files_that_are_none(self):
        path = self.write("session.kv", "no session at all")
        self.refused(3, "no session file", "run", LLAMA, "abc", *GREEDY, "-n", "1", "--session", path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "no session at all", "a refused file stays as it is")
        os.remove(path)
        self.ok("run", LLAMA, "abc", *GREEDY, "-n", "1", "--session", path)
        self.refused(3, "session", "run", QWEN2, "abc", *GREEDY, "-n", "1", "--session", path)
        self.refused(3, "session", "run", LLAMA, "abc", *GREEDY, "-n", "1", "--kv-type", "f32", "--session", path)


class Overflow(ProgramTest):
    def test_shift_goes_on_where_stop_ends(self):
        arguments = ["run", LLAMA, "abcdefgh", *GREEDY, "-c", "64", "-n", "150", "--logit-bias", "2=-1000"]
        stopped = self.ok(*arguments)
        self.assertIn("the context of 64 tokens is full", stopped.err)
        shifted = self.ok(*arguments, "--overflow", "shift")
        self.assertRegex(shifted.err, r"generated 150 tokens")
        self.assertRegex(shifted.err, r"the context was shifted \d+ time")
        self.assertTrue(shifted.out.startswith(stopped.out.rstrip("\n")))
        self.refused(2, "--keep goes with --overflow shift", *arguments, "--keep", "3")
        self.refused(2, "--keep 60: the prompt has", *arguments, "--overflow", "shift", "--keep", "60")


class Speculation(ProgramTest):
    def test_the_tokens_are_those_of_plain_decoding(self):
        for sampler in (["--temp", "0"], ["--temp", "0.9", "--seed", "7"]):
            plain = self.ok("run", LLAMA, "abcabcabcabc", "--raw", *sampler, "-n", "60")
            for kind in ("ngram", f"draft:{LLAMA}"):
                with self.subTest(sampler=sampler, kind=kind):
                    result = self.ok("run", LLAMA, "abcabcabcabc", "--raw", *sampler, "-n", "60", "--speculate", kind)
                    self.assertEqual(result.out, plain.out)

    def test_wrong_usage(self):
        self.refused(2, "expected ngram or draft:MODEL", "run", LLAMA, "abc", "--raw", "--speculate", "guess")
        self.refused(2, "--draft-depth goes with --speculate", "run", LLAMA, "abc", "--raw", "--draft-depth", "3")


class Parallel(ProgramTest):
    def test_rows(self):
        result = json.loads(self.ok("bench", LLAMA, "-p", "0", "-n", "4", "-d", "0,8", "-r", "1", "--parallel", "1,3",
                                    "-o", "json").out)
        self.assertEqual([row["name"] for row in result["rows"]], ["tg4", "tg4@b3", "tg4@d8", "tg4@d8@b3"])
        self.assertTrue(all(row["tokens_per_second"] > 0 for row in result["rows"]))
        self.refused(2, "--parallel", "bench", LLAMA, "--parallel", "65")


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
