#!/usr/bin/env python3
"""Chat templates against Python's jinja2, set up as transformers does it, on generated templates.

Usage: template_differential_test.py RENDERER [unittest options]. RENDERER is template_render. Templates are drawn with a
fixed seed (template_maker.py); TEMPLATE_COUNT in the environment asks for more of them, TEMPLATE_SEED for others. Where
jinja2 renders, so must minfer, to the byte; where it raises, so must minfer, on the same line, with jinja2's message
where that is jinja2's own (syntax errors have minfer's wording). Skipped where jinja2 is missing.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

try:
    import jinja2

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    from make_template_goldens import line_of, make_environment, render
    from template_snippets import VARIABLES
except ImportError:
    jinja2 = None
from template_maker import TemplateMaker

RENDERER = ""
COUNT = int(os.environ.get("TEMPLATE_COUNT", "1500"))
SEED = int(os.environ.get("TEMPLATE_SEED", "1"))
# What minfer does not do by decision, and says so.
DECIDED = ("64 bits", "limit", "lone surrogate")


@unittest.skipIf(jinja2 is None, "the package jinja2 is missing")
class GeneratedTemplates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.environment = make_environment()
        cls.renderer = subprocess.Popen([RENDERER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.renderer.stdin.close()
        cls.renderer.stdout.close()
        cls.renderer.wait()

    def ask(self, template):
        self.renderer.stdin.write(json.dumps({"template": template, "variables": json.dumps(VARIABLES)}) + "\n")
        self.renderer.stdin.flush()
        return json.loads(self.renderer.stdout.readline())

    def compare(self, template):
        """What differs, or None."""
        text, error = render(self.environment, template, VARIABLES)
        answer = self.ask(template)
        if any(word in answer.get("error", "") for word in DECIDED):
            return None
        if error is None:
            if " at 0x" in text or "<built-in method" in text:  # an address
                return None
            return None if answer.get("text") == text else f"expected {text!r}, got {answer}"
        if "text" in answer:
            return f"expected {type(error).__name__}: {error}; got {answer['text']!r}"
        # jinja2 has no line of its own for the values of `with`, and gives that of the text before.
        line = None if "with x" in template else line_of(error)
        if line is not None and line != answer["line"]:
            return f"expected line {line} ({type(error).__name__}: {error}), got {answer['error']}"
        if isinstance(error, jinja2.exceptions.UndefinedError) and str(error) not in answer["error"]:
            return f"expected {error}, got {answer['error']}"
        return None

    def test_render_alike(self):
        rendered = differences = 0
        for seed in range(SEED * 1_000_000, SEED * 1_000_000 + COUNT):
            template = TemplateMaker(random.Random(seed)).template()
            difference = self.compare(template)
            rendered += difference is None
            if difference is not None:
                differences += 1
                with self.subTest(seed=seed, template=template):
                    self.fail(difference)
        print(f"{COUNT} templates, {differences} differ", file=sys.stderr)


if __name__ == "__main__":
    RENDERER = sys.argv.pop(1)
    unittest.main()
