#!/usr/bin/env python3
"""Tests of the engine's options on the command line: sessions, shifting, speculation, streams that decode together, perplexity.

Usage: engine_cli_test.py PROGRAM [unittest options]. Most run on the tiny models of tests/golden; chats
take smollm2-135m.
"""

import json
import math
import os
import re
import resource
import struct
import subprocess
import sys
import unittest

from program import TEXT, TINY, ProgramTest

SMOLLM = "smollm2-135m"
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

    def test_a_chat_goes_on_as_if_it_had_not_stopped(self):
        name = self.model(SMOLLM)
        path = str(self.write("chat.kv", ""))
        os.remove(path)
        asked = ["What is the capital city of France, in one sentence?", "And of Italy?"]
        answers = [self.ok("run", name, text, "--temp", "0", "-n", "40", "--session", path).out.rstrip("\n")
                   for text in asked]
        messages = [{"role": "user", "content": asked[0]}, {"role": "assistant", "content": answers[0]},
                    {"role": "user", "content": asked[1]}]
        whole = self.ok("render", "--model", name, "--input", "-",
                        stdin=json.dumps({"messages": messages, "add_generation_prompt": True}).encode()).out
        expected = self.ok("run", name, whole, "--raw", "--temp", "0", "-n", "40").out.rstrip("\n")
        self.assertEqual(answers[1], expected)
        self.refused(2, "--system goes before the first turn", "run", name, "hi", "--system", "x", "--session", path)

    def test_an_answer_that_was_cut_is_ended_first(self):
        name = self.model(SMOLLM)
        path = str(self.write("chat.kv", ""))
        os.remove(path)
        cut = self.ok("run", name, "Count from one to ten.", "--temp", "0", "-n", "3", "--session", path).out.rstrip("\n")
        second = self.ok("run", name, "Thank you.", "--temp", "0", "-n", "20", "--session", path).out.rstrip("\n")
        messages = [{"role": "user", "content": "Count from one to ten."}, {"role": "assistant", "content": cut},
                    {"role": "user", "content": "Thank you."}]
        whole = self.ok("render", "--model", name, "--input", "-",
                        stdin=json.dumps({"messages": messages, "add_generation_prompt": True}).encode()).out
        self.assertEqual(second, self.ok("run", name, whole, "--raw", "--temp", "0", "-n", "20").out.rstrip("\n"))

    def test_paths_that_no_file_can_have(self):
        folder = self.write("x", "").parent
        loop = folder / "loop"
        loop.symlink_to(loop)
        for path in ("a" * 300, folder / "none" / "s", loop):
            self.refused(5, "", "run", LLAMA, "abc", *GREEDY, "-n", "1", "--session", path)
        self.refused(2, "not a file", "run", LLAMA, "abc", *GREEDY, "-n", "1", "--session", folder)
        self.refused(2, "the text is empty", "run", LLAMA, "abc", *GREEDY, "-n", "1", "--session", "")
        link = folder / "link"
        link.symlink_to(folder / "real")
        self.ok("run", LLAMA, "abc", *GREEDY, "-n", "1", "--session", link)
        self.assertTrue(link.is_symlink() and (folder / "real").stat().st_size > 0)

    def test_a_session_that_cannot_be_saved(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        path = str(self.folder / "session.kv")
        # Without restore_signals a file that grows too large is an error, not a signal.
        process = self.start("run", LLAMA, "abc", *GREEDY, "-n", "40", "--explain", "--session", path,
                             preexec_fn=small_files, restore_signals=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = process.communicate(timeout=60)[0].decode()
        self.assertEqual(process.returncode, 5, said)
        lines = said.splitlines()
        self.assertRegex(lines[-3], r"^engine: \d+ steps")
        self.assertRegex(lines[-2], r"^minfer: prompt \d+ tokens .* generated 40 tokens")
        self.assertRegex(lines[-1], rf"^minfer: {path}: can't write at byte \d+: File too large")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_full_session_is_shifted(self):
        path = str(self.write("session.kv", ""))
        os.remove(path)
        arguments = ["run", LLAMA, "abcdefgh", *GREEDY, "-c", "64", "-n", "100", "--logit-bias", "2=-1000", "--session", path]
        self.ok(*arguments)
        self.refused(2, "take a larger one, or let it shift", *arguments)
        self.assertRegex(self.ok(*arguments, "--overflow", "shift").err, r"the context was shifted \d+ time")

    def test_what_is_kept_are_the_first_tokens_of_the_session(self):
        path = str(self.write("session.kv", ""))
        os.remove(path)
        arguments = ["run", LLAMA, "-c", "64", "--raw", "--temp", "0", "--logit-bias", "2=-1000", "--session", path]
        self.ok(*arguments, "The first turn has many more tokens.", "-n", "8")
        before = self.ids(path)
        for kept, options in ((20, ["--keep", "20"]), (4, [])):
            self.ok(*arguments, "x", "-n", "90", "--overflow", "shift", *options)
            self.assertEqual(self.ids(path)[:kept], before[:kept])
            self.assertNotEqual(self.ids(path)[:kept + 8], before[:kept + 8])
        self.refused(2, "--keep 65: the context holds 64 tokens", *arguments, "x", "--overflow", "shift", "--keep", "65")

    @staticmethod
    def ids(path):
        """The tokens of a session file; docs/formats/session-file.md."""
        with open(path, "rb") as file:
            data = file.read()
        groups, pending, tokens = struct.unpack_from("<IIQ", data, 240)
        return struct.unpack_from(f"<{tokens + pending}i", data, 256 + 32 * groups)

    def test_a_full_context_loses_no_token(self):
        path = str(self.write("session.kv", ""))
        os.remove(path)
        arguments = ["run", LLAMA, *GREEDY, "--logit-bias", "2=-1000"]
        first = self.ok(*arguments, "abcdef", "-n", "200", "-c", "12", "--session", path)
        self.assertIn("the context of 12 tokens is full", first.err)
        count = int(re.search(r"generated (\d+) tokens", first.err)[1])
        other = str(self.folder / "other.kv")
        self.ok(*arguments, "abcdef", "-n", count, "-c", "64", "--session", other)
        self.assertEqual(self.ids(path), self.ids(other))
        self.assertEqual(*[self.ok(*arguments, ",", "-n", "20", "-c", "64", "--session", p).out for p in (path, other)])


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


class BrokenWeights(ProgramTest):
    def setUp(self):
        super().setUp()
        whole = LLAMA.read_bytes()
        half = len(whole) // 8 * 4
        self.path = self.write("broken.gguf", whole[:half] + struct.pack("<f", math.nan) * ((len(whole) - half) // 4))

    def test_a_draft_model_is_named(self):
        result = self.minfer("run", LLAMA, "the", "--raw", "-n", "9", "--speculate", f"draft:{self.path}", "--draft-depth", "2")
        self.assertEqual(result.code, 3)
        self.assertRegex(result.err, "it is the draft model .*broken.gguf, and its weights are broken")

    def test_have_no_speed(self):
        for test in (("-p", "8", "-n", "0"), ("-p", "0", "-n", "2")):
            with self.subTest(test=test):
                self.refused(3, "the model gave NaN as a logit", "bench", self.path, "-r", "1", *test)

    def test_have_no_perplexity(self):
        text = self.write("text.txt", "All words of a long text. " * 40)
        self.refused(3, "the model gave NaN as the logit of token", "perplexity", self.path, text, "-c", "64")


class Parallel(ProgramTest):
    def test_a_number_given_twice_is_one_test(self):
        result = json.loads(self.ok("bench", LLAMA, "-p", "4,4", "-n", "2", "-r", "1", "--parallel", "2,1,2",
                                    "-o", "json").out)
        self.assertEqual([row["name"] for row in result["rows"]], ["pp4", "tg2@b2", "tg2"])

    def test_too_many_streams_are_said_to_be_too_many(self):
        said = self.refused(4, "fewer sequences at once (--parallel)", "bench", LLAMA, "-p", "0", "-n", "4096",
                            "--parallel", "1024", "--memory-limit", "200M")
        self.assertNotIn("--batch-tokens", said)

    def test_rows(self):
        result = json.loads(self.ok("bench", LLAMA, "-p", "0", "-n", "4", "-d", "0,8", "-r", "1", "--parallel", "1,3",
                                    "-o", "json").out)
        self.assertEqual([row["name"] for row in result["rows"]], ["tg4", "tg4@b3", "tg4@d8", "tg4@d8@b3"])
        self.assertTrue(all(row["tokens_per_second"] > 0 for row in result["rows"]))
        self.refused(2, "--parallel", "bench", LLAMA, "--parallel", "1025")


class Perplexity(ProgramTest):
    def test_of_windows(self):
        text = self.write("text.txt", TEXT)
        one = json.loads(self.ok("perplexity", LLAMA, text, "-c", "64", "--json", "-t", "1").out)
        two = json.loads(self.ok("perplexity", LLAMA, text, "-c", "64", "--json", "-t", "2").out)
        self.assertEqual(one, two)
        self.assertEqual((one["window"], one["scored_tokens"]), (64, one["windows"] * 31))
        self.assertTrue(100 < one["perplexity"] < 1000 and math.isfinite(one["standard_error"]), one)  # random: about 288
        first = json.loads(self.ok("perplexity", LLAMA, "-", "-c", "64", "--json", "--windows", "1", stdin=TEXT.encode()).out)
        self.assertEqual(first["windows"], 1)
        self.assertRegex(self.ok("perplexity", LLAMA, text, "-c", "64").out, r"\Aperplexity \d+\.\d{4} \+- \d+\.\d{4} \(")
        self.refused(2, "need at least 1024", "perplexity", LLAMA, "-", "-c", "512", stdin=b"short")
        self.refused(2, "at least 4", "perplexity", LLAMA, text, "-c", "2")
        real = json.loads(self.ok("perplexity", self.model(SMOLLM), text, "-c", "64", "--windows", "2", "--json").out)
        self.assertTrue(1 < real["perplexity"] < 30, real)


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
