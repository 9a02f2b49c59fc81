#!/usr/bin/env python3
"""Options of the command line that are about tokenizers."""

import os
import sys
import unittest

from program import TEXT, TINY, ProgramTest

LLAMA = TINY / "llama.gguf"
QWEN2 = TINY / "qwen2.gguf"


class Rules(ProgramTest):
    def test_pre_tokenizer_rules(self):
        for command in ("run", "tokenize", "perplexity"):
            text = [self.write("text.txt", TEXT)] if command == "perplexity" else ["hi"]
            self.refused(3, "the pre-tokenizer rule 'zebra' (tokenizer.ggml.pre) is not known; known are 'gpt-2'", command,
                         QWEN2, *text, "--pre", "zebra")
        said = self.refused(3, "only byte-level BPE has such rules", "tokenize", LLAMA, "hi", "--pre", "gpt-2")
        self.assertIn("leave --pre out", said)


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
