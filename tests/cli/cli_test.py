#!/usr/bin/env python3
"""Tests of the command line: what goes to stdout and to stderr, exit codes, and the forms of every subcommand.

Usage: cli_test.py PROGRAM [unittest options]. Most tests run on the tiny models of tests/golden, which are random but
whole; chat, speed and Ctrl-C take smollm2-135m. Values are compared with golden data of other implementations where there
are any, else with what must hold (equal text for equal seeds, equal bits for any thread count).
"""

import csv
import io
import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program import GOLDEN, TEXT, TINY, ProgramTest, split_model, with_architecture, with_metadata

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from make_gguf_corpus import Model  # noqa: E402

SMOLLM = "smollm2-135m"
LLAMA = TINY / "llama.gguf"
QWEN2 = TINY / "qwen2.gguf"
COMMANDS = ["run", "plan", "info", "list", "tokenize", "detokenize", "render", "bench", "perplexity"]
TIMINGS = (r"minfer: prompt \d+ tokens in \d+\.\d\d s \(\d+\.\d tokens/s\), "
           r"generated (\d+) tokens in \d+\.\d\d s \(\d+\.\d tokens/s\), seed (\d+)\n")


class Help(ProgramTest):
    def test_pages_are_short_lines_on_stdout(self):
        for command in [[], *([name] for name in COMMANDS)]:
            with self.subTest(command=command):
                result = self.ok(*command, "--help")
                self.assertEqual(result.err, "")
                self.assertLessEqual(max(map(len, result.out.splitlines())), 100)
                self.assertIn("--help", result.out)
        for name in COMMANDS:
            self.assertRegex(self.ok("--help").out, rf"\n  {name} +[A-Z]")
        self.assertRegex(self.ok("--version").out, r"\Aminfer \d+\.\d+\.\d+\n\Z")

    def test_run_help_has_the_options(self):
        text = self.ok("run", "--help").out
        self.assertIn("Usage: minfer run [OPTIONS] MODEL [PROMPT]", text)
        for option in ["-f,", "--raw", "--system", "-n,", "-c,", "-t,", "--seed", "--temp,", "--top-k", "--stop", "--kv-type",
                       "--chat-template", "--explain", "--dump-graph"]:
            self.assertIn(option, text)


class WrongUsage(ProgramTest):
    def refuse_all(self, cases):
        for says, arguments in cases:
            with self.subTest(arguments=arguments):
                self.refused(2, says, *arguments)

    def test_arguments(self):
        self.refuse_all([
            ("no command given", []),
            ("no command is called 'frob'", ["frob"]),
            ("no option is called '--frob'", ["--frob"]),
            ("no option is called '--tmp'", ["run", LLAMA, "hi", "--tmp", "3"]),
            ("one argument too many", ["run", LLAMA, "two", "words"]),
            ("MODEL is required", ["run"]),
            ("MODEL is empty", ["run", "", "hi"]),
            ("MODEL is empty", ["info", ""]),
            ("--temp needs a value", ["run", LLAMA, "hi", "--temp"]),
            ("--top-k may be given once only", ["run", LLAMA, "hi", "--top-k", "1", "--top-k", "2"]),
            ("'abc' is not a whole number from -1", ["run", LLAMA, "hi", "-n", "abc"]),
            ("'-5' is not a whole number", ["run", LLAMA, "hi", "-n", "-5"]),
            ("'99999999999' is not", ["run", LLAMA, "hi", "-n", "99999999999"]),
            ("'99999999999' is not", ["run", LLAMA, "hi", "-c", "99999999999"]),
            ("'9999' is not a whole number from 0 to 1024", ["run", LLAMA, "hi", "-t", "9999"]),
            ("'-1' is not", ["run", LLAMA, "hi", "--seed", "-1"]),
            ("--system is not UTF-8: byte 0xFE at offset 2", ["run", LLAMA, "hi", "--system", b"ab\xfe"]),
            ("'q9' is not a KV cache format", ["run", LLAMA, "hi", "--kv-type", "q9"]),
            ("expected TYPE, or k=TYPE,v=TYPE", ["run", LLAMA, "hi", "--kv-type", "x=f16"]),
            ("v is given twice", ["run", LLAMA, "hi", "--kv-type", "v=f32,k=f16,v=q8_0"]),
            ("k is given twice", ["run", LLAMA, "hi", "--kv-type", "k=f16,k=f16"]),
            ("expected TYPE, or k=TYPE,v=TYPE", ["run", LLAMA, "hi", "--kv-type", "k=q8_0,"]),
            ("--gpu-layers banana: expected auto, or 0 to the model's 3 layers",
             ["run", LLAMA, "hi", "--raw", "--gpu-layers", "banana"]),
            ("--batch-tokens 2: a step of --parallel 8 has 8 tokens", ["bench", LLAMA, "--parallel", "8", "--batch-tokens", "2"]),
            ("not both", ["run", LLAMA, "hi", "-f", LLAMA]),
            (".dot or .json", ["run", LLAMA, "hi", "--dump-graph", self.folder / "graph.png"]),
            ("--system has no meaning with --raw", ["run", LLAMA, "hi", "--raw", "--system", "s"]),
            ("no chat template for --system", ["run", LLAMA, "hi", "--system", "s"]),
            ("not both", ["tokenize", LLAMA, "hi", "-f", LLAMA]),
            ("give --chat-template FILE or --model MODEL", ["render", "--input", "-"]),
            ("--input is required", ["render", "--model", LLAMA]),
            ("give a MODEL or --synthetic", ["bench"]),
            ("give a MODEL or --synthetic", ["bench", LLAMA, "--synthetic", "qwen3-0.6b:q4_0"]),
            ("known are smollm2-135m, ", ["bench", "--synthetic", "gpt9:q4_0"]),
            ("known are f32, ", ["bench", "--synthetic", "qwen3-0.6b:q99"]),
            ("expected SHAPE:MIX", ["bench", "--synthetic", "qwen3-0.6b"]),
            ("no test", ["bench", LLAMA, "-p", "0", "-n", "0"]),
            ("'xml' is none of md, csv, json", ["bench", LLAMA, "-o", "xml"]),
            ("'0' is not a whole number from 1", ["bench", LLAMA, "-r", "0"]),
            ("-c 8 is too small", ["bench", LLAMA, "-p", "16", "-c", "8"]),
            ("'16,,3' is not a list such as 16,32 of whole numbers from 0", ["bench", LLAMA, "-p", "16,,3"]),
            ("'16,' is not a list", ["bench", LLAMA, "-n", "16,"]),
            ("'' is not a list", ["bench", LLAMA, "-d", ""]),
            ("'1,x' is not a list", ["bench", LLAMA, "-d", "1,x"]),
            ("--prompt may be given once only", ["bench", LLAMA, "-p", "1", "-p", "2"]),
            ("FILE is required", ["perplexity", LLAMA]),
        ])

    def test_sampler_arguments(self):
        self.refuse_all([
            ("'hot' is not a number", ["run", LLAMA, "hi", "--temp", "hot"]),
            ("'nan' is not a number", ["run", LLAMA, "hi", "--temp", "nan"]),
            ("temperature is -1; expected 0 to 1000", ["run", LLAMA, "hi", "--temp", "-1"]),
            ("top_p is 2; expected 0 to 1", ["run", LLAMA, "hi", "--top-p", "2"]),
            ("mirostat is 3", ["run", LLAMA, "hi", "--mirostat", "3"]),
            ("--logit-bias 5: expected ID=BIAS", ["run", LLAMA, "hi", "--logit-bias", "5"]),
            ("token 999", ["run", LLAMA, "hi", "--logit-bias", "999=1"]),
            ("--stop", ["run", LLAMA, "hi", "--stop", ""]),
            ("--stop is not UTF-8: byte 0xFF at offset 1", ["run", LLAMA, "hi", "--stop", b"a\xff"]),
            ("--dry-sequence-breaker: an empty text", ["run", LLAMA, "hi", "--dry-sequence-breaker", ""]),
            ("--dry-sequence-breaker is not UTF-8: byte 0xC3 at offset 0",
             ["run", LLAMA, "hi", "--dry-multiplier", "1", "--dry-sequence-breaker", b"\xc3"]),
            ("--mirostat 2 and --temp 0 can't both hold", ["run", LLAMA, "hi", "--mirostat", "2", "--temp", "0"]),
            ("--mirostat 1 and --top-k can't both hold", ["run", LLAMA, "hi", "--mirostat", "1", "--top-k", "40"]),
            ("--mirostat 2 and --top-p", ["run", LLAMA, "hi", "--mirostat", "2", "--top-p", "0.9"]),
            ("--mirostat 2 and --min-p", ["run", LLAMA, "hi", "--mirostat", "2", "--min-p", "0.1"]),
            ("--mirostat 2 and --typical-p", ["run", LLAMA, "hi", "--mirostat", "2", "--typical-p", "0.5"]),
            ("--mirostat 2 and --xtc-probability", ["run", LLAMA, "hi", "--mirostat", "2", "--xtc-probability", "1"]),
        ])

    def test_ids(self):
        self.refuse_all([
            ("no token 288; the vocabulary has 288", ["detokenize", LLAMA, "288"]),
            ("no token -1", ["detokenize", LLAMA, "--", "-1"]),
            ("at offset 2 found '99999999999'; a token id does not fit in 32 bits", ["detokenize", LLAMA, "1", "99999999999"]),
            ("at offset 0 found 'abc'; expected token ids", ["detokenize", LLAMA, "abc"]),
            ("at offset 2 found '1.5'", ["detokenize", LLAMA, "7", "1.5"]),
            ("at offset 0 found '1e3'", ["detokenize", LLAMA, "1e3"]),
            ("at offset 2 found '9x'", ["detokenize", LLAMA, "1,9x"]),
            ("at offset 2 found ',2'", ["detokenize", LLAMA, "1,,2"]),
            ("at offset 2 found the end", ["detokenize", LLAMA, "1,"]),
            ("at offset 7 found '3'", ["detokenize", LLAMA, "[1, 2] 3"]),
            ("at offset 2 found the end", ["detokenize", LLAMA, "[1"]),
            ("at offset 1 found ']'", ["detokenize", LLAMA, "1]"]),
            ("at offset 1 found '\"id\"", ["detokenize", LLAMA, '{"id":[1]}']),
            ("at offset 7 found '1}", ["detokenize", LLAMA, '{"ids":1}']),
            ("at offset 10 found ',\"x\":1}", ["detokenize", LLAMA, '{"ids":[1],"x":1}']),
        ])
        for says, ids in (("at offset 4 found ']'", b"[1, ]"), ("at offset 3 found ',2'", b"[1,,2]"), ("found '\\xFF'", b"\xff")):
            self.refused(2, says, "detokenize", LLAMA, stdin=ids)

    def test_instruction_set(self):
        self.refused(2, 'MINFER_FORCE_ISA: instruction set "mmx": unknown; available: scalar', "run", LLAMA, "hi",
                     env={"MINFER_FORCE_ISA": "mmx"})

    def test_prompts(self):
        self.refused(2, "the prompt is not UTF-8: byte 0xFF at offset 1", "run", LLAMA, b"a\xff\xfeb", "--raw")
        self.refused(2, "the text is not UTF-8: byte 0xC3 at offset 2", "tokenize", LLAMA, stdin=b"ab\xc3")
        self.refused(2, "the prompt is empty", "run", QWEN2, "", "--raw")
        long_text = self.write("long.txt", "the " * 200_000)
        said = self.refused(2, "take a larger one with -c", "run", LLAMA, "--raw", "-f", long_text)
        self.assertRegex(said, r"the prompt has \d{6} tokens, the context 512;")


class BadFiles(ProgramTest):
    def test_missing_and_unreadable(self):
        self.refused(5, "no model 'nothing'", "run", "nothing", "hi", env={"MINFER_MODEL_DIR": str(self.folder)})
        self.refused(5, "no model '/nowhere/x.gguf': no such file\n", "info", "/nowhere/x.gguf")
        here = {"MINFER_MODEL_DIR": str(self.folder)}
        said = self.refused(5, f"neither that file nor {self.folder}/x.gguf exists", "run", "x.gguf", "hi", env=here)
        self.assertNotIn(".gguf.gguf", said)
        self.write("tiny.gguf", LLAMA.read_bytes())
        self.ok("info", "tiny.gguf", env=here)
        self.refused(5, "File name too long", "info", "x" * 300)
        for home in ({"HOME": ""}, {"HOME": None}):
            home["MINFER_MODEL_DIR"] = None
            for arguments in (["list"], ["info", "x"]):
                self.refused(5, "neither MINFER_MODEL_DIR nor HOME is set", *arguments, env=home)
        template = self.write("t.jinja", "{{ x }}")
        for arguments in (["run", LLAMA, "-f", "/nowhere/p.txt"], ["tokenize", LLAMA, "-f", "/nowhere/p.txt"],
                          ["perplexity", LLAMA, "/nowhere/p.txt"], ["run", LLAMA, "hi", "--chat-template", "/nowhere/p.txt"],
                          ["render", "--chat-template", template, "--input", "/nowhere/p.txt"]):
            with self.subTest(arguments=arguments):
                self.refused(5, "/nowhere/p.txt: can't open: No such file", *arguments)
        self.refused(5, "/nowhere/g.json: can't create", "run", LLAMA, "hi", "--raw", "--dump-graph", "/nowhere/g.json")

    def test_broken_models(self):
        whole = LLAMA.read_bytes()
        cases = {
            "empty": b"",
            "garbage": bytes(range(256)) * 40,
            "text": b"#!/bin/sh\necho hello\n" * 20,
            "only-magic": b"GGUF",
            "cut-in-header": whole[:1500],
            "cut-in-tensors": whole[:len(whole) // 2],
            "version": whole[:4] + b"\x63" + whole[5:],
            "counts": whole[:8] + b"\xff" * 16 + whole[24:],
        }
        for name, content in cases.items():
            path = self.write(name + ".gguf", content)
            for command in (["run", path, "hi"], ["info", path], ["tokenize", path, "hi"], ["bench", path],
                            ["perplexity", path, LLAMA.with_suffix(".json")]):
                with self.subTest(name=name, command=command[0]):
                    self.refused(3, name + ".gguf", *command)
        self.refused(3, "not a regular file", "info", self.folder)

    def test_split_files(self):
        names = [f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
        first, second, third = [self.write(*part) for part in zip(names, split_model(LLAMA.read_bytes(), 3))]
        info = json.loads(self.ok("info", first, "--json").out)
        self.assertEqual((info["parameters"], len(info["files"])), (129472, 3))
        options = ["the", "--raw", "--temp", "0", "-n", "12"]
        whole = self.ok("run", LLAMA, *options).out
        self.assertEqual(self.ok("run", first, *options).out, whole)
        self.assertEqual(self.ok("run", names[0].removesuffix(".gguf"), *options, env={"MINFER_MODEL_DIR": str(self.folder)}).out,
                         whole)
        for command in (["info", second], ["run", second, "hi"], ["tokenize", second, "hi"]):
            self.refused(3, f"found part 2 of a split set of 3, expected its part 1: open {first}", *command)
        third.unlink()
        self.refused(5, "part 3 of 3 is missing or can't be read", "run", first, "hi")
        third.mkdir()
        self.assertIn(names[2], self.refused(3, "not a regular file", "run", first, "hi"))

    def test_two_runs_at_once(self):
        command = ["run", LLAMA, "the", "--raw", "--temp", "0", "-n", "40"]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        both = [process.communicate(timeout=60)[0] for process in [self.start(*command, **streams) for _ in range(2)]]
        self.assertEqual(both, [self.run_bytes(*command)[1]] * 2)

    def test_unsupported_architecture(self):
        path = self.write("mamba.gguf", with_architecture(LLAMA.read_bytes(), "mamba"))
        said = self.refused(3, "mamba", "run", path, "hi")
        self.assertIn("llama", said)  # what is supported
        self.assertIs(json.loads(self.ok("info", path, "--json").out)["supported"], False)

    def test_broken_weights(self):
        whole = LLAMA.read_bytes()
        half = len(whole) // 8 * 4
        text = self.write("text.txt", TEXT)
        for number, says in ((math.nan, "the model gave NaN"), (math.inf, "the model gave NaN"), (3e38, "the model gave "),
                             (0.0, "the model gave 0 as the logit of every token")):
            path = self.write("broken.gguf", whole[:half] + struct.pack("<f", number) * ((len(whole) - half) // 4))
            for temperature in ("0", "1"):
                with self.subTest(number=number, temperature=temperature):
                    self.refused(3, says, "run", path, "hi", "--raw", "--temp", temperature)
            if number != 0:
                self.refused(3, "the model gave ", "perplexity", path, text, "-c", "64")

    def test_a_broken_weight_is_named(self):
        model = Model(LLAMA.read_bytes())
        shape, dtype, content = model.tensors["blk.1.ffn_up.weight"]
        for number, word in ((math.nan, "NaN"), (math.inf, "infinity"), (-math.inf, "infinity")):
            broken = bytearray(content)
            struct.pack_into("<f", broken, 4 * (64 * 3 + 17), number)
            path = self.write("broken.gguf", model.write(tensors={"blk.1.ffn_up.weight": (shape, dtype, bytes(broken))}))
            says = f"tensor blk.1.ffn_up.weight has {word} at row 3, column 17"
            with self.subTest(number=number):
                self.refused(3, says, "run", path, "hi", "--raw")
                self.refused(3, says, "bench", path, "-p", "8", "-n", "4")
                self.refused(3, says, "perplexity", path, self.write("text.txt", TEXT), "-c", "64")

    def test_template_that_cannot_be_rendered(self):
        for source in ("{% frobnicate %}", "{{ raise_exception('no users here') }}", "{{ messages", "{{ nothing.here.at.all }}"):
            model = self.write("chat.gguf", with_metadata(LLAMA.read_bytes(), "tokenizer.chat_template", source))
            with self.subTest(source=source):
                said = self.refused(3, "take --raw for the bare text, or --chat-template FILE", "run", model, "hi")
                self.assertIn("tokenizer.chat_template", said)
                self.ok("run", model, "hi", "--raw", "-n", "1")
                good = self.write("good.jinja", "{{ messages[0].content }}")
                self.ok("run", model, "hi", "--chat-template", good, "-n", "1")
                self.refused(3, "line 1", "run", LLAMA, "hi", "--chat-template", self.write("bad.jinja", source))

    def test_control_characters_in_messages(self):
        source = "{{ raise_exception('one\\ntwo \x1b[31m\\x1b é \x85') }}"
        model = self.write("chat.gguf", with_metadata(LLAMA.read_bytes(), "tokenizer.chat_template", source))
        self.refused(3, r"one\ntwo \x1B[31m\x1B é \xC2\x85", "run", model, "hi")
        self.refused(5, r"no model 'a\x07\nb'", "info", "a\x07\nb")
        named = self.write("named.gguf", with_metadata(LLAMA.read_bytes(), "a.key", "a\nvalue" + "é" * 60))
        self.assertIn('  a.key = "a\\nvalue' + "é" * 35 + "...\n", self.ok("info", named).out)

    def test_more_memory_than_there_is(self):
        said = self.refused(4, "take a smaller context (-c)", "run", LLAMA, "hi", "--raw", "-c", "1000000000")
        self.assertRegex(said, r"needs \d+ MB on cpu .* has \d+ MB available")
        self.refused(4, "take a smaller context", "run", self.model("qwen2.5-coder-0.5b"), "hi", "-c", "1000000000")


class Run(ProgramTest):
    def test_answer_alone_goes_to_stdout(self):
        expected = json.loads((TINY / "llama.json").read_text())
        result = self.ok("run", LLAMA, "the", "--raw", "--temp", "0", "-n", "12", "--seed", "5")
        timings = self.assertRegex(result.err, rf"\A{TIMINGS}\Z")
        self.assertIsNone(timings)
        self.assertIn("generated 12 tokens", result.err)
        self.assertIn("seed 5\n", result.err)
        self.assertTrue(result.out.endswith("\n"))
        self.assertEqual(len(expected["greedy"]), 64)

    def test_prompt_sources_agree(self):
        options = ["--raw", "--temp", "0", "-n", "8"]
        given = self.ok("run", LLAMA, "the and the", *options).out
        path = self.write("prompt.txt", "the and the")
        self.assertEqual(self.ok("run", LLAMA, *options, "-f", path).out, given)
        self.assertEqual(self.ok("run", LLAMA, *options, "-f", "-", stdin=b"the and the").out, given)
        self.assertEqual(self.ok("run", LLAMA, *options, stdin=b"the and the").out, given)
        self.assertEqual(self.ok("run", *options, LLAMA, "--", "the and the").out, given)
        self.assertNotEqual(self.ok("run", LLAMA, "other words", *options).out, given)

    def test_no_template_is_said(self):
        self.assertIn("no chat template", self.ok("run", LLAMA, "hi", "-n", "1").err)
        self.assertNotIn("no chat template", self.ok("run", LLAMA, "hi", "-n", "1", "--raw").err)

    def test_seeds(self):
        def draw(*options):
            return self.ok("run", LLAMA, "the", "--raw", "--temp", "1.5", "-n", "30", *options).out
        self.assertEqual(draw("--seed", "7"), draw("--seed", "7"))
        self.assertEqual(draw("--seed", "7"), draw("--seed", "7", "-t", "1"))
        self.assertNotEqual(draw("--seed", "7"), draw("--seed", "8"))
        first = self.ok("run", LLAMA, "the", "--raw", "--temp", "1.5", "-n", "30")
        seed = first.err.split("seed ")[1].strip()
        self.assertEqual(draw("--seed", seed), first.out)

    def test_sampler_values_matter(self):
        def draw(*options):
            return self.ok("run", LLAMA, "the", "--raw", "--temp", "2", "--seed", "3", "-n", "30", *options).out
        plain = draw()
        greedy = self.ok("run", LLAMA, "the", "--raw", "--temp", "0", "-n", "30").out
        self.assertEqual(draw("--top-k", "1"), greedy)
        self.assertEqual(draw("--top-p", "0"), greedy)
        self.assertEqual(draw("--min-p", "1"), greedy)
        for options in (["--top-k", "5"], ["--top-p", "0.2"], ["--typical-p", "0.3"], ["--repeat-penalty", "2"],
                        ["--frequency-penalty", "5"], ["--presence-penalty", "5"], ["--mirostat", "2"], ["--mirostat", "1"],
                        ["--xtc-probability", "1", "--xtc-threshold", "0.001"]):
            with self.subTest(options=options):
                self.assertNotEqual(draw(*options), plain)
        self.assertEqual(draw("--mirostat", "2", "--top-k", "0"), draw("--mirostat", "2"))  # off, so it holds
        self.ok("run", LLAMA, "the", "--raw", "--temp", "0", "--top-k", "5", "-n", "1")
        end = json.loads(self.ok("info", LLAMA, "--json").out)["metadata"]["tokenizer.ggml.eos_token_id"]
        forced = self.ok("run", LLAMA, "the", "--raw", "--logit-bias", f"{end}=1000")
        self.assertEqual(forced.out, "\n")
        self.assertIn("generated 1 tokens", forced.err)

    def test_counts_and_stops(self):
        def greedy(*options):
            return self.ok("run", QWEN2, "the", "--raw", "--temp", "0", *options).out.removesuffix("\n")
        whole = greedy("-n", "40")
        self.assertEqual(self.ok("run", QWEN2, "the", "--raw", "-n", "0").out, "")
        self.assertTrue(whole.startswith(greedy("-n", "10").rstrip("\ufffd")))
        stop = whole[6:9]
        self.assertEqual(greedy("-n", "40", "--stop", stop), whole[:whole.index(stop)])
        self.assertEqual(greedy("-n", "40", "--stop", "[never]", "--stop", stop), whole[:whole.index(stop)])

    def test_full_context(self):
        result = self.ok("run", QWEN2, "the", "--raw", "--temp", "0", "-c", "64")
        self.assertIn("minfer: stopped: the context of 64 tokens is full; take a larger one with -c\n", result.err)

    def test_context_beyond_training(self):
        text = "minfer: the context of 1000 tokens is larger than the 512 that the model was trained for"
        self.assertIn(text, self.ok("run", LLAMA, "hi", "--raw", "-n", "1", "-c", "1000").err)
        self.assertNotIn("trained", self.ok("run", LLAMA, "hi", "--raw", "-n", "1", "-c", "512").err)

    def test_cache_formats(self):
        def greedy(kv_type):
            return self.ok("run", QWEN2, "the", "--raw", "--temp", "0", "-n", "20", "--kv-type", kv_type).out
        f32 = greedy("f32")
        for kv_type in ("f16", "k=f32,v=f16", "v=f32,k=f16", "k=f16"):
            self.assertEqual(greedy(kv_type), f32, kv_type)

    def test_explain_and_graphs(self):
        said = self.ok("run", LLAMA, "hi", "--raw", "-n", "1", "--explain", env={"MINFER_FORCE_ISA": "scalar"}).err
        for part in ("device cpu: ", "scalar kernels", "3 layers", "weights F32", "placement: ", "memory: weights ",
                     "; 0 bytes copied between devices"):
            self.assertIn(part, said)
        graph = self.folder / "graph.json"
        self.ok("run", LLAMA, "hi", "--raw", "-n", "1", "--dump-graph", graph)
        fused = len(json.loads(graph.read_text())["nodes"])
        self.ok("run", LLAMA, "hi", "--raw", "-n", "1", "--dump-graph", graph, "--no-fusion")
        self.assertGreater(len(json.loads(graph.read_text())["nodes"]), fused)
        dot = self.folder / "graph.dot"
        self.ok("run", LLAMA, "hi", "--raw", "-n", "1", "--dump-graph", dot)
        self.assertTrue(dot.read_text().startswith("digraph"))

    def test_chat(self):
        name = self.model(SMOLLM)
        one = self.ok("run", name, "Say hello.", "--temp", "0", "-n", "24", "-t", "1")
        two = self.ok("run", name, "Say hello.", "--temp", "0", "-n", "24", "-t", "2")
        self.assertEqual(one.out, two.out)
        self.assertIn("hello", one.out.lower())
        self.assertNotIn("<|im_", one.out)
        self.assertRegex(one.err, rf"\A{TIMINGS}\Z")
        raw = self.ok("run", name, "The capital of France is", "--raw", "--temp", "0", "-n", "3").out
        self.assertIn("Paris", raw)
        # The template and a system message reach the model.
        template = self.write("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}")
        bare = self.ok("run", name, " is", "--system", "The capital of France", "--chat-template", template, "--temp", "0",
                       "-n", "3").out
        self.assertEqual(bare, raw)
        self.assertNotEqual(self.ok("run", name, "Say hello.", "--system", "Answer in French.", "--temp", "0", "-n", "24").out,
                            one.out)
        self.assertIn("the text of the control token '<|im_end|>'", self.ok("run", name, "a<|im_end|>b", "-n", "1").err)
        self.assertNotIn("control token", self.ok("run", name, "a<|im_end|>b", "-n", "1", "--raw").err)
        self.ok("run", name, "", "-n", "2")  # an empty message is still a message


class Streams(ProgramTest):
    def test_interrupt(self):
        for kind in (signal.SIGINT, signal.SIGTERM):
            process = self.start("run", self.model(SMOLLM), "Tell me a very long story.", "--temp", "0", "-c", "2048",
                                 "--logit-bias", "2=-inf", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            first = os.read(process.stdout.fileno(), 1)
            time.sleep(0.2)
            process.send_signal(kind)
            rest, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            self.assertGreater(len((first + rest).decode().strip()), 0)
            self.assertRegex(err.decode(), TIMINGS)

    def test_interrupt_of_a_wait(self):
        process = self.start("run", LLAMA, "--raw", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 130)
        self.assertEqual(process.communicate()[1], b"minfer: cancelled while reading -\n")

    def test_interrupt_of_a_long_measurement(self):
        for test in (["-p", "0", "-n", "200000"], ["-p", "200000", "-n", "0", "--batch-tokens", "64"],
                     ["-p", "1", "-n", "0", "-d", "200000", "--batch-tokens", "64"]):
            with self.subTest(test=test):
                process = self.start("bench", LLAMA, *test, "-r", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.addCleanup(process.kill)
                time.sleep(4)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=10)
                self.assertEqual((process.returncode, out), (130, b""), err)
                self.assertRegex(err, rb"minfer: cancelled [^\n]+\n\Z")

    def test_second_signal_ends_at_once(self):
        # The signals come inside a long step, which asks for them at its end only.
        process = self.start("bench", self.model(SMOLLM), "-p", "8192", "--batch-tokens", "8192", "-n", "0", "-r", "5",
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_closed_stdout(self):
        reader, writer = os.pipe()
        os.close(reader)
        process = self.start("run", LLAMA, "the", "--raw", "-n", "50", stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        err = process.communicate(timeout=60)[1].decode()
        self.assertIn(process.returncode, (-signal.SIGPIPE, 5), err)

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            process = self.start("run", LLAMA, "the", "--raw", "-n", "50", stdout=full, stderr=subprocess.PIPE)
            err = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 5)
        self.assertEqual(err, "minfer: standard output: can't write: No space left on device\n")


class Files(ProgramTest):
    def test_info(self):
        info = json.loads(self.ok("info", LLAMA, "--json").out)
        self.assertEqual((info["version"], info["architecture"], info["supported"]), (3, "llama", True))
        self.assertEqual((info["parameters"], info["tensor_bytes"]), (129472, 517888))
        self.assertEqual(info["metadata"]["llama.block_count"], 3)
        self.assertEqual(info["metadata"]["tokenizer.ggml.tokens"], "array of 288 string")
        shapes = {tensor["name"]: (tensor["type"], tensor["shape"]) for tensor in info["tensors"]}
        self.assertEqual(shapes["token_embd.weight"], ("F32", [64, 288]))
        text = self.ok("info", LLAMA).out
        for part in ("architecture  llama", "0.1 M in", "  llama.block_count = 3", "token_embd.weight"):
            self.assertIn(part, text)

    def test_info_of_a_real_model(self):
        info = json.loads(self.ok("info", self.model(SMOLLM), "--json").out)
        self.assertEqual(info["parameters"], 134515008)
        self.assertEqual(info["metadata"]["llama.context_length"], 8192)

    def test_list(self):
        folder = {"MINFER_MODEL_DIR": str(self.folder)}
        empty = self.ok("list", env=folder)
        self.assertEqual((empty.out, empty.err), ("", f"minfer: no models in {self.folder}\n"))
        self.write("good.gguf", LLAMA.read_bytes())
        self.write("bad.gguf", b"no model")
        self.write("other.txt", b"")
        lines = self.ok("list", env=folder).out.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"\Abad +0\.0 MB  invalid: ")
        self.assertRegex(lines[1], r"\Agood +0\.5 MB  llama\Z")
        self.ok("run", "good", "hi", "--raw", "-n", "1", env=folder)  # a name of the cache is a model
        self.assertEqual(self.ok("list", env={"MINFER_MODEL_DIR": "/nowhere"}).out, "")

    def test_tokenize(self):
        for name in (SMOLLM, "gemma3-270m", "qwen2.5-coder-0.5b"):
            golden = json.loads((GOLDEN / "models" / f"{name}.json").read_text())["prompts"]
            for prompt in golden[:3]:
                with self.subTest(name=name, text=prompt["text"]):
                    out = self.ok("tokenize", self.model(name), prompt["text"], "--json").out
                    self.assertEqual(json.loads(out), {"ids": prompt["ids"]})
                    back = self.ok("detokenize", name, *prompt["ids"]).out
                    self.assertEqual(back, prompt["text"])

    def test_tokenize_options(self):
        def ids(*options, **streams):
            return json.loads(self.ok("tokenize", LLAMA, "--json", *options, **streams).out)["ids"]
        self.assertEqual(ids("the")[0], 1)
        self.assertEqual(ids("the", "--no-bos"), ids("the")[1:])
        self.assertEqual(ids("</s>", "--special", "--no-bos")[-1:], [2])
        self.assertNotIn(2, ids("</s>"))
        self.assertEqual(ids("-f", self.write("t.txt", "the end")), ids(stdin=b"the end"))
        self.assertEqual(ids("", "--no-bos"), [])
        for text in ("the end", "naïve — 日本語 🙂", "  two  blanks\n\n", "\x00\x01"):
            packed = json.dumps({"ids": ids(stdin=text.encode())}).encode()
            self.assertEqual(self.ok("detokenize", LLAMA, stdin=packed).out, text)
        self.assertEqual(self.ok("detokenize", LLAMA, "--special", "2").out, "</s>")
        for notation in ("40 41\n42", "40,41 , 42", " [40, 41 42]\n", '{"ids": [40,41,42]}'):
            self.assertEqual(self.ok("detokenize", LLAMA, stdin=notation.encode()).out, "%&'", notation)
        self.assertEqual(self.ok("detokenize", LLAMA, "[]").out, "")
        self.assertRegex(self.ok("tokenize", LLAMA, "the").out, r'\A +1 "<s>"\n( +\d+ "[^"]*"\n)+\Z')

    def test_render(self):
        template = self.write("t.jinja", "{% for m in messages %}\n[{{ m.role }}] {{ m.content }}\n{% endfor %}\n{{- x }}\n")
        variables = {"messages": [{"role": "user", "content": "Grüße 🙂"}, {"role": "assistant", "content": " a\n"}], "x": 5}
        path = self.write("v.json", json.dumps(variables))
        code, out, err = self.run_bytes("render", "--chat-template", template, "--input", path)
        self.assertEqual((code, out, err), (0, "[user] Grüße 🙂\n[assistant]  a\n\n5".encode(), b""))
        piped = self.ok("render", "--chat-template", template, "--input", "-", stdin=json.dumps(variables).encode())
        self.assertEqual(piped.out.encode(), out)
        chat = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}).encode()
        self.assertEqual(
            self.ok("render", "--model", self.model(SMOLLM), "--input", "-", stdin=chat).out,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")

    def test_render_errors(self):
        template = self.write("t.jinja", "{{ x }}")
        self.refused(2, "expected a JSON object", "render", "--chat-template", template, "--input", "-", stdin=b"[1]")
        self.refused(2, "-: malformed JSON at byte 2", "render", "--chat-template", template, "--input", "-", stdin=b"{broken")
        self.refused(2, "JSON", "render", "--chat-template", template, "--input", "-", stdin=b"[" * 100_000)
        self.refused(3, "t.jinja", "render", "--chat-template", self.write("t.jinja", "{% if %}"), "--input", "-", stdin=b"{}")
        loop = self.write("loop.jinja", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
        said = self.refused(3, "the template runs for more than", "render", "--chat-template", loop, "--input", "-", stdin=b"{}")
        self.assertNotIn("::", said)
        large = self.write("large.jinja", "x" * (4 << 20) + "x")
        text = "large.jinja: 4194305 bytes; at most 4194304"
        self.refused(3, text, "render", "--chat-template", large, "--input", "-", stdin=b"{}")
        self.refused(3, text, "run", LLAMA, "hi", "--chat-template", large)
        self.refused(3, "more than 4194304 bytes", "run", LLAMA, "hi", "--chat-template", "/dev/zero")
        self.refused(3, "no chat template", "render", "--model", LLAMA, "--input", "-", stdin=b"{}")


class Measures(ProgramTest):
    NAMES = ["pp16", "tg4", "pp16@d32", "tg4@d32"]
    SMALL = ["-p", "16", "-n", "4", "-d", "0,32", "-r", "1"]

    def test_bench_formats(self):
        name = self.model(SMOLLM)
        result = json.loads(self.ok("bench", *self.SMALL, name, "-o", "json").out)
        self.assertEqual([row["name"] for row in result["rows"]], self.NAMES)
        for row in result["rows"]:
            self.assertGreater(row["tokens_per_second"], 0)
            self.assertGreaterEqual(row["stddev"], 0)
            self.assertTrue(0 < row["fraction_of_limit"] <= 1.05, row)
        self.assertGreater(result["limits"]["read_bytes_per_second"], 1e8)
        rows = list(csv.DictReader(io.StringIO(self.ok("bench", name, *self.SMALL, "-o", "csv").out)))
        self.assertEqual([row["name"] for row in rows], self.NAMES)
        for row in rows:
            self.assertGreater(float(row["tokens_per_second"]), 0)
            self.assertGreater(float(row["limit_read_bytes_per_second"]), 1e8)
            self.assertEqual((row["model"], row["device"]), (name, result["device"]))
            self.assertEqual(row["description"], result["description"])
        text = self.ok("bench", name, *self.SMALL).out
        self.assertIn("| name | tokens_per_second | stddev | fraction_of_limit |", text)
        self.assertIn("| tg4@d32 | ", text)
        self.assertRegex(text, r"limits: read \d+\.\d GB/s")

    def test_bench_of_random_weights(self):
        result = json.loads(self.ok("bench", "--synthetic", "smollm2-135m:q4_0", "-p", "8", "-n", "2", "-r", "1", "-o", "json").out)
        self.assertEqual([row["name"] for row in result["rows"]], ["pp8", "tg2"])
        self.assertEqual(result["model"], "smollm2-135m:q4_0")

    def test_kept_random_weights(self):
        path = self.folder / "kept.gguf"
        self.ok("bench", "--synthetic", "smollm2-135m:q4_0", "--keep", path, "-p", "0", "-n", "0")
        info = json.loads(self.ok("info", path, "--json").out)
        self.assertEqual((info["architecture"], info["parameters"]), ("llama", 134515008))
        self.refused(2, "exists already", "bench", "--synthetic", "smollm2-135m:q4_0", "--keep", path)
        self.refused(2, "--keep goes with --synthetic", "bench", LLAMA, "--keep", path)
        self.refused(3, "no vocabulary", "run", path, "hi")


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
