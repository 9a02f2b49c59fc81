#!/usr/bin/env python3
"""`minfer run --grammar` and `--json-schema`: answers are held to the file, whatever the model would say.

Usage: grammar_cli_test.py PROGRAM [unittest options]. The tiny models of tests/golden; one test takes
qwen2.5-coder-0.5b, and validates with the Python package jsonschema where that is there.
"""

import json
import os
import re
import sys
import unittest

from program import TINY, ProgramTest

LLAMA = TINY / "llama.gguf"
CODER = "qwen2.5-coder-0.5b"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "year": {"type": "integer", "minimum": 1900, "maximum": 2030},
        "kind": {"enum": ["language", "library", "tool"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "year", "kind", "tags"],
    "additionalProperties": False,
}


class Grammars(ProgramTest):
    def test_an_answer_matches_the_grammar(self):
        path = self.write("list.gbnf", 'root ::= item{3}\nitem ::= "- " [A-Z] [a-z]{2,8} "\\n"\n')
        for seed in range(4):
            out = self.ok("run", LLAMA, "abc", "--raw", "--grammar", path, "--seed", str(seed)).out
            self.assertRegex(out, r"\A(- [A-Z][a-z]{2,8}\n){3}\n\Z")

    def test_forced_answers_are_counted(self):
        path = self.write("one.gbnf", 'root ::= "ABC"')
        run = self.ok("run", LLAMA, "abc", "--raw", "--grammar", path)
        self.assertEqual(run.out, "ABC\n")
        self.assertIn("generated 3 tokens", run.err)

    def test_a_schema_holds_the_answer(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99},
                                                   "b": {"enum": ["x", "y"]}},
                  "required": ["a", "b"], "additionalProperties": False}
        path = self.write("schema.json", json.dumps(schema))
        for seed in range(4):
            out = json.loads(self.ok("run", LLAMA, "abc", "--raw", "--json-schema", path, "--seed", str(seed)).out)
            self.assertEqual(list(out), ["a", "b"])
            self.assertTrue(0 <= out["a"] <= 99 and out["b"] in ("x", "y"), out)

    def test_what_is_wrong_is_named(self):
        good = self.write("good.gbnf", 'root ::= "a"')
        schema = self.write("schema.json", "{}")
        self.refused(2, "give --grammar or --json-schema, not both", "run", LLAMA, "abc", "--grammar", good,
                     "--json-schema", schema)
        bad = self.write("bad.gbnf", 'root ::= "a"\n\nroot ::= b')
        self.refused(3, "bad.gbnf, line 3: the rule 'root' is defined already", "run", LLAMA, "abc", "--grammar", bad)
        loop = self.write("loop.gbnf", 'root ::= root "a" | "b"')
        self.refused(3, "the rule 'root' begins with itself", "run", LLAMA, "abc", "--grammar", loop)
        self.refused(5, "none.gbnf", "run", LLAMA, "abc", "--grammar", good.parent / "none.gbnf")
        self.refused(3, "", "run", LLAMA, "abc", "--json-schema", self.write("bad.json", "{"))

    def test_a_real_model_fills_in_a_schema(self):
        name = self.model(CODER)
        path = self.write("schema.json", json.dumps(SCHEMA))
        for seed in ("1", "2"):
            out = self.ok("run", name, "Describe the Python programming language as JSON.", "--json-schema", path,
                          "--seed", seed, "-n", "300").out
            value = json.loads(out)
            self.assertTrue(re.search("python", value["name"], re.IGNORECASE), out)
            try:
                import jsonschema
            except ImportError:
                self.skipTest("the Python package jsonschema is absent")
            jsonschema.validate(value, SCHEMA)


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
