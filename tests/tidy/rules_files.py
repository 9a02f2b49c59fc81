"""Tidy rules that look at files as text: sizes, the opening comment, words that don't belong, line ends.

Limits are those of docs/contributing.md. Each rule takes a Tree and yields findings.
"""

import os
import re
from typing import Iterator

from tree import CPP_SUFFIXES, Finding, Tree, is_data, is_test, line_of

MAX_SOURCE_LINES = 500
MAX_KERNEL_LINES = 800
MAX_HEADER_LINES = 200
MAX_TEST_LINES = 600
MIN_HEADER_COMMENT = 2  # 1 in a short file, and in x.cpp or x.cu beside x.hpp, whose comment says the rest
SHORT_FILE_LINES = 150
MAX_HEADER_COMMENT = 25

# Words that mark unfinished work, folders and hosts of one machine or one network. Written so as not to match themselves.
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b")
MACHINE_NAMES = re.compile(r"(?<![\w.}~/-])/(work|root|opt)/|\bpypi\.org\b|\bpythonhosted\.org\b|\bdeb\.debian\.org\b")


def line_limit(path: str) -> int:
    if is_test(path):
        return MAX_TEST_LINES
    if re.match(r"src/\w+/kernels/", path):
        return MAX_KERNEL_LINES
    return MAX_HEADER_LINES if path.endswith((".hpp", ".cuh")) else MAX_SOURCE_LINES


def file_size(tree: Tree) -> Iterator[Finding]:
    """A file fits its limit of lines."""
    for path in tree.cpp() + tree.python():
        lines = tree.text(path).count("\n")
        if lines > line_limit(path):
            yield Finding(path, line_limit(path) + 1, "file_size", f"{lines} lines, at most {line_limit(path)}: split it")


def _leading_comment_lines(path: str, text: str) -> int:
    """Lines of the comment (or docstring) that a file starts with, after a #! line."""
    lines = text.split("\n")
    if lines[0].startswith("#!"):
        lines = lines[1:]
    if path.endswith(CPP_SUFFIXES):
        marker = "//"
    elif lines and lines[0].startswith('"""'):
        text = "\n".join(lines)
        return text.split('"""')[1].strip("\n").count("\n") + 1
    else:
        marker = "#"
    count = 0
    while count < len(lines) and lines[count].startswith(marker):
        count += 1
    return count


def header_comment(tree: Tree) -> Iterator[Finding]:
    """A source starts with a comment that says what it is: 2 to 25 lines; build files and shell scripts, 1 or more."""
    sources = set(tree.cpp() + tree.python())
    scripts = {p for p in tree.paths if p.startswith("scripts/") and not is_data(p)} | set(tree.cmake())
    for path in sorted(sources | scripts):
        lines = _leading_comment_lines(path, tree.text(path))
        stem, suffix = os.path.splitext(path)
        has_header = suffix in (".cpp", ".cu") and any(stem + header in tree.paths for header in (".hpp", ".cuh"))
        is_short = tree.text(path).count("\n") <= SHORT_FILE_LINES
        least = MIN_HEADER_COMMENT if path in sources and not has_header and not is_short else 1
        if lines < least:
            yield Finding(path, 1, "header_comment", f"{lines} lines of opening comment, at least {least}: say what it "
                          "is, why it stands apart, units and limits, owner and threads, source")
        elif lines > MAX_HEADER_COMMENT:
            yield Finding(path, 1, "header_comment", f"{lines} lines of opening comment, at most {MAX_HEADER_COMMENT}")


def _text_files(tree: Tree) -> Iterator[str]:
    return (p for p in tree.paths if not is_data(p))


def words(tree: Tree) -> Iterator[Finding]:
    """No marks of unfinished work, no names of one machine's folders or of package registries."""
    for path in _text_files(tree):
        text = tree.text(path)
        for match in UNFINISHED.finditer(text):
            yield Finding(path, line_of(text, match.start()), "unfinished", f"'{match.group()}': finish it or file an issue")
        for match in MACHINE_NAMES.finditer(text):
            yield Finding(path, line_of(text, match.start()), "machine_name",
                          f"'{match.group()}' names one machine or registry; take it from an option")


def line_ends(tree: Tree) -> Iterator[Finding]:
    """No carriage returns, no blanks at the end of a line, a newline at the end of the file."""
    for path in _text_files(tree):
        text = tree.text(path)
        if os.path.basename(path) == "LICENSE" or not text:
            continue
        match = re.search(r"[ \t\r]+$", text, re.MULTILINE)
        if match:
            yield Finding(path, line_of(text, match.start()), "line_ends", "blanks or a carriage return end this line")
        if not text.endswith("\n"):
            yield Finding(path, line_of(text, len(text)), "line_ends", "the last line has no newline")
