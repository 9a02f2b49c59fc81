#!/usr/bin/env python3
"""Token ids against the Python packages `tokenizers` and `sentencepiece`, on generated texts.

Usage: tokenizer_compare_test.py TOKEN_IDS [unittest options]. TOKEN_IDS is token_ids, which says what minfer makes of a
text. The vocabularies: the published tokenizers of MINFER_FIXTURES (TEXT_COUNT texts each, 20000 without it), and tiny
ones that are trained here, of the kinds WordPiece and Unigram. The rules that cut text into words are compared with the
regular expressions of `tokenizers`, an engine of another make. Texts are drawn with a fixed seed. Skipped where a
package is missing, but not in CI; so are the published tokenizers where the folder is.
"""

import collections
import json
import lzma
import os
import random
import re
import subprocess
import sys
import tempfile
import unicodedata
import unittest

import gguf_vocab
import texts

try:
    import tokenizers
except ImportError:
    tokenizers = None
try:
    import sentencepiece
except ImportError:
    sentencepiece = None

PROGRAM = ""
IN_CI = bool(os.environ.get("CI"))
COUNT = int(os.environ.get("TEXT_COUNT", "20000"))
RULE_COUNT = COUNT // 20  # texts for each rule
FIXTURES = os.environ.get("MINFER_FIXTURES", "")
SHOWN = 5  # differences of a kind in a message

WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")

# What the published expressions are where the table has others.
THREES = {"before_threes": r"(?=(\d{3})+(?!\d))", "bounded_threes": r"\d{1,3}(?=(?:\d{3})*\b)"}
PUBLISHED = {
    "jais-2": lambda steps: [steps[0].replace(r"(?<![^\S\r\n])", "")],
    "exaone-moe": lambda steps: [steps[0].replace(r"\p{L}(?:[\p{L}\p{M}]++| (?=\p{L}))*+",
                                                  r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+")],
    "kimi-k2": lambda steps: [
        r"[\p{Han}]+|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-llm": lambda steps: [step.replace(r"(?<!\s)\s+\z", r"\s+$") for step in steps],
}


def threes(count):
    """Where a run of `count` numbers is cut into threes from its end."""
    return [count % 3] * (count % 3 > 0) + [3] * (count // 3)


class Session:
    """token_ids, asked line by line."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.read()


class Compared(unittest.TestCase):
    def compare(self, path, expected, drawn, mode="ids", order=lambda ids: ids):
        """Asserts that the ids of each text are those that `expected` says, as far as `order` keeps them apart."""
        differences = []
        with Session(mode, path) as session:
            for text in drawn:
                found = session.ask(text)
                wanted = expected(text)
                if order(found) != order(wanted):
                    differences.append(f"{text!r}:\n  found  {found}\n  wanted {wanted}")
        self.assertFalse(differences, f"{len(differences)} of {len(drawn)} texts differ:\n" +
                         "\n".join(sorted(differences, key=len)[:SHOWN]))

    @staticmethod
    def drawn(seed, special=(), count=None):
        rng = random.Random(seed)
        return [texts.draw(rng, special) for _ in range(COUNT if count is None else count)]


@unittest.skipIf(tokenizers is None and not IN_CI, "the Python package tokenizers is not installed")
class PublishedTokenizers(Compared):
    def check(self, name, write, *arguments):
        path = os.path.join(FIXTURES, "tokenizers", name, "tokenizer.json.xz")
        if not os.path.exists(path) and not os.environ.get("MINFER_REQUIRE_MODELS"):
            self.skipTest(f"no file {path} (set MINFER_FIXTURES)")
        with lzma.open(path) as packed:
            text = packed.read().decode("utf-8")
        published = json.loads(text)
        tokenizer = tokenizers.Tokenizer.from_str(text)
        special = [token["content"] for token in published["added_tokens"]][:40]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "vocab.gguf")
            write(path, published, *arguments)
            self.compare(path, lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
                         self.drawn(name, special))

    def test_qwen3(self):
        self.check("qwen3", gguf_vocab.from_byte_bpe, "qwen2")

    def test_llama3(self):
        self.check("llama3_2", gguf_vocab.from_byte_bpe, "llama-bpe")

    def test_gemma3_by_scores(self):
        self.check("gemma3", gguf_vocab.from_scored_pieces)

    def test_gemma3_by_merges(self):
        self.check("gemma3", gguf_vocab.from_merged_pieces)


@unittest.skipIf(tokenizers is None and not IN_CI, "the Python package tokenizers is not installed")
class TrainedTokenizers(Compared):
    """Tiny vocabularies, so that many words are unknown or in many parts."""

    def training_texts(self):
        """Texts of the characters that are frequent in them: each is a token."""
        drawn = [re.sub(r"[\s\u2581]+", " ", text) for text in self.drawn("training", count=2000)]
        counted = collections.Counter("".join(drawn))
        return ["".join(character for character in text if counted[character] > 20) for text in drawn]

    def check_wordpiece(self, lowercase, strip_accents):
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
        tokenizer.train_from_iterator(self.training_texts(), trainer)
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
        drawn = self.drawn("wordpiece", special) + ["a" * 100, "a" * 101, "[UNK]x"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "vocab.gguf")
            gguf_vocab.from_wordpiece(path, json.loads(tokenizer.to_str()), lowercase, strip_accents)
            self.compare(path, lambda text: tokenizer.encode(text).ids, drawn, "special")

    def test_wordpiece_lowercase(self):
        self.check_wordpiece(True, None)

    def test_wordpiece_cased(self):
        self.check_wordpiece(False, None)

    def test_wordpiece_with_accents(self):
        self.check_wordpiece(True, False)

    def test_unigram(self):
        tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always")
        trainer = tokenizers.trainers.UnigramTrainer(vocab_size=1000, special_tokens=["<unk>", "</s>"],
                                                     unk_token="<unk>", show_progress=False)
        tokenizer.train_from_iterator(self.training_texts(), trainer)
        # A run of spaces is several pieces for Metaspace; here text has single ones, and none at its ends.
        drawn = [re.sub(r" +", " ", text.replace("\u2581", "")).strip(" ") for text in self.drawn("unigram")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "vocab.gguf")
            published = json.loads(tokenizer.to_str())
            for piece in published["model"]["vocab"]:
                piece[1] = round(piece[1] * 64) / 64  # exact in the file and as JSON is read, so that ties are ties
            tokenizer = tokenizers.Tokenizer.from_str(json.dumps(published))
            gguf_vocab.from_unigram(path, published)
            self.compare(path, lambda text: tokenizer.encode(text).ids, [text for text in drawn if text])


@unittest.skipIf(sentencepiece is None and not IN_CI, "the Python package sentencepiece is not installed")
class SentencePieceModels(Compared):
    """Unigram with the compiled normalizer that T5 has, byte tokens or an unknown one, and both ways with spaces."""

    def check(self, **settings):
        rng = random.Random("sentencepiece")
        lines = [texts.draw(rng).replace("\n", " ").replace("\0", "") for _ in range(1000)]
        counted = collections.Counter("".join(lines))
        lines = ["".join(character for character in line if counted[character] > 10) for line in lines]
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "model")
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=prefix, vocab_size=900,
                                                     model_type="unigram", minloglevel=2, character_coverage=0.98,
                                                     hard_vocab_limit=False,
                                                     **settings)
            processor = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            path = os.path.join(folder, "vocab.gguf")
            gguf_vocab.from_sentencepiece(path, processor,
                                          gguf_vocab.compiled_charsmap(processor.serialized_model_proto()),
                                          settings.get("add_dummy_prefix", True),
                                          settings.get("remove_extra_whitespaces", True))
            drawn = [text.replace("\0", "") for text in self.drawn("unigram")]
            # Of covers with equal sums the package takes one by the rounding of single precision: the same tokens in
            # another order.
            self.compare(path, processor.encode, [text for text in drawn if text], order=sorted)

    def test_t5(self):
        self.check(normalization_rule_name="nmt_nfkc")

    def test_case_folding(self):
        self.check(normalization_rule_name="nfkc_cf")

    def test_byte_fallback(self):
        self.check(normalization_rule_name="nmt_nfkc", byte_fallback=True)

    def test_spaces_kept(self):
        self.check(normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False)


@unittest.skipIf(tokenizers is None and not IN_CI, "the Python package tokenizers is not installed")
class Rules(unittest.TestCase):
    @staticmethod
    def splitter(rule):
        """The pieces that the expressions of a rule make with the engine of `tokenizers`."""
        steps = PUBLISHED.get(rule["name"], lambda steps: steps)(rule["steps"])
        splits = []
        for step in steps:
            expression = THREES.get(step, r"\p{N}+" if step == "number_threes" else step)
            split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(expression), "isolated")
            splits.append((split, step == "number_threes"))

        def pieces(text):
            found = [text]
            for split, is_threes in splits:
                cut = [piece for part in found for piece, _ in split.pre_tokenize_str(part)]
                found = []
                for piece in cut:
                    lengths = threes(len(piece)) if is_threes and all(unicodedata.category(c)[0] == "N" for c in piece) else [len(piece)]
                    for length in lengths:
                        found.append(piece[:length])
                        piece = piece[length:]
            return found

        return pieces

    def test_every_rule(self):
        rng = random.Random("rules")
        drawn = [texts.draw(rng) for _ in range(RULE_COUNT)]
        with Session("pieces") as session:
            rules = session.read()
            self.assertGreater(len(rules), 35)
            for rule in rules:
                with self.subTest(rule["name"]):
                    split = self.splitter(rule)
                    for text in drawn:
                        found = session.ask([rule["name"], text])
                        wanted = split(text)
                        if rule["drops_space"]:
                            wanted = [piece for piece in wanted if WHITE_SPACE.sub("", piece)]
                        self.assertEqual(found, wanted, f"{rule['name']}: {text!r}")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
