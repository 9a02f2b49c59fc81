"""Generated texts that tokenizers may disagree on: all planes, runs of white space, numbers, code, emoji, controls."""

import unicodedata

PROSE = ("The quick brown fox jumps over the lazy dog, didn't it? We've said so: they'll AGREE, and I'm sure you'd too. "
         "Stra\u00dfe, na\u00efve caf\u00e9; \u0394\u03b7\u03bc\u03bf\u03ba\u03c1\u03b1\u03c4\u03af\u03b1 \u2014 \u043d\u0435\u0449\u043e \u043d\u0430 \u0431\u044a\u043b\u0433\u0430\u0440\u0441\u043a\u0438. \u6211\u60f3\u5728apple\u5de5\u4f5c1314151\u5929\uff5e "
         "\u304b\u306a\u30ab\u30bf\u30ab\u30ca \ud55c\uad6d\uc5b4 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea").split(" ")
CODE = ["def f(x):\n    return x**2\n", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }", "#include <vector>\n", "\t\treturn;\n",
        "SELECT * FROM t WHERE id = 42;", "if (!x) {\n\n\t}\r\n", "std::vector<int>", "https://example.com/a?b=c&d=%20#e",
        "{\"key\": [1, 2.5e-3, null]}", "x = y || z && !w;", "a->b::c()", "\\frac{1}{2}", "camelCaseHTTPRequest_v2"]
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea",
         "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001f636\u200d\U0001f32b\ufe0f"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c", "\u180e", "\u200b"]
WORDS = ["'s", "'T", "'re", "'VE", "'ll", "'d", "'\u017f", "I", "a", "don't", "...", "!!!", "-----", "\u0301", "e\u0301", "\u1e0b\u0323",
         "\u2581", "\u2581\u2581x", "<", ">", "[", "]", "##", "\ufffd", "\ufb01", "\uff21\uff22", "\u2167", "\u00bd", "\u0663\u0664", "\u0130", "\u03a3\u03c2"]
ASSIGNED_EARLY = unicodedata.ucd_3_2_0


def is_settled(character):
    """Whether all versions of Unicode that engines have agree on what a character is."""
    now = unicodedata.category(character)
    return now != "Cs" and now != "Cn" and ASSIGNED_EARLY.category(character) == now and \
        ASSIGNED_EARLY.normalize("NFD", character) == unicodedata.normalize("NFD", character) and \
        ASSIGNED_EARLY.combining(character) == unicodedata.combining(character)


SETTLED = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000 and is_settled(chr(number))]
ENDS = [sum(1 for character in SETTLED if ord(character) < end) for end in (0x80, 0x250, 0x3000, 0x10000, 0x110000)]


def character(rng):
    return SETTLED[rng.randrange(rng.choice(ENDS))]


def number(rng):
    text = "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 14)))
    return rng.choice([text, text, text + "." + text[:3], f"{text[:2]},{text}", "\u0661" + text, text + "x"])


def part(rng, special):
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(PROSE)
    if kind == 3:
        return rng.choice(CODE)
    if kind == 4:
        return rng.choice(EMOJI)
    if kind == 5:
        return rng.choice(SPACES) * rng.choice([1, 1, 2, 3, 5, 17])
    if kind == 6:
        return number(rng)
    if kind == 7:
        return rng.choice(WORDS)
    if kind == 8:
        return "".join(character(rng) for _ in range(rng.randrange(1, 8)))
    if kind == 9:
        return character(rng) * rng.randrange(1, 12)
    if kind == 10 and special:
        return rng.choice(special)
    return " "


def draw(rng, special=()):
    """A text of up to some dozens of parts; `special`: texts to strew in."""
    join = rng.choice(["", "", " "])
    return join.join(part(rng, special) for _ in range(rng.randrange(1, rng.choice([4, 12, 40]))))
