#!/usr/bin/env python3
"""Damaged model files through the program: `info`, `plan`, `tokenize` and `run` on every file of malformed() in
scripts/make_gguf_corpus.py, made from the tiny llama model, and split sets with a part missing, doubled or of another
set. No command ends but by an answer or by one line that says what is wrong and where.

Usage: malformed_cli_test.py PROGRAM [unittest options].
"""

import sys
import unittest
from pathlib import Path

from program import TINY, ProgramTest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from make_gguf_corpus import Model, malformed  # noqa: E402

LLAMA = TINY / "llama.gguf"
# Exit codes of an error that is the file's: wrong, or too large for the machine.
REFUSALS = (3, 4)


class Malformed(ProgramTest):
    def outcome(self, *arguments):
        """What stderr says where the program refuses; None where it does not."""
        result = self.minfer(*arguments)
        if result.code == 0:
            return None
        self.assertIn(result.code, REFUSALS, result.err)
        self.assertEqual(result.out, "")
        self.assertRegex(result.err, r"\Aminfer: [^\n]+\n\Z")
        return result.err

    def test_the_model_written_again_is_sound(self):
        path = self.write("same.gguf", Model(LLAMA.read_bytes()).write())
        options = ["the", "--raw", "--temp", "0", "-n", "12"]
        self.assertEqual(self.ok("run", path, *options).out, self.ok("run", LLAMA, *options).out)

    def test_every_file_is_refused_by_name(self):
        count = 0
        for name, content, says in malformed(LLAMA.read_bytes()):
            path = self.write("damaged.gguf", content)
            with self.subTest(name=name):
                said = self.outcome("run", path, "the", "--raw", "-n", "2", "-c", "64", "--memory-limit", "64M")
                self.assertIsNotNone(said, "the file was run")
                self.assertIn(says, said)
                for command in (["info", path], ["plan", path, "-c", "64"], ["tokenize", path, "the"]):
                    self.outcome(*command)
            count += 1
        self.assertGreater(count, 80)

    def test_split_sets(self):
        model = Model(LLAMA.read_bytes())
        names = [f"m-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
        parts = [model.part(number, 3) for number in range(3)]
        whole = [self.write(*pair) for pair in zip(names, parts)]
        self.assertIsNone(self.outcome("run", whole[0], "the", "--raw", "-n", "2"))
        cases = {
            "doubled": (1, parts[2], "part"),
            "first again": (1, parts[0], "part"),
            "tensor twice": (2, model.part(2, 3, list(model.tensors)[1::3]), "a second time"),
            "tensor left out": (2, model.part(2, 3, list(model.tensors)[2::3][1:]), "tensor"),
            "of two": (1, model.part(1, 2), ""),
            "no split keys": (1, model.write(), ""),
            "cut": (2, parts[2][:-40], names[2]),
            "empty": (1, b"", names[1]),
        }
        for name, (index, content, says) in cases.items():
            with self.subTest(name=name):
                self.write(names[index], content)
                for command in (["run", whole[0], "the", "--raw", "-n", "2"], ["info", whole[0]], ["plan", whole[0]]):
                    said = self.outcome(*command)
                    self.assertIsNotNone(said)
                    self.assertIn(says, said)
                self.write(names[index], parts[index])
        self.assertIsNone(self.outcome("run", whole[0], "the", "--raw", "-n", "2"))


if __name__ == "__main__":
    ProgramTest.program = sys.argv.pop(1)
    unittest.main()
