"""The files that the tidy test looks at, and what a finding is.

A Tree is every text file of the project: build folders, caches and version control are left out. Files are read once.
Paths are relative to the root, with forward slashes. A Finding names file, line and rule, so that an editor can jump to
it. Rules are functions from a Tree to findings; they live in rules_*.py and are listed in tidy.py.
"""

import os
import re
from typing import Iterator, NamedTuple

SKIPPED_DIRS = {".git", ".cache", ".venv", "__pycache__"}
BINARY_SUFFIXES = (".gguf", ".bin", ".npy", ".npz", ".png", ".pyc")
CPP_SUFFIXES = (".cpp", ".hpp", ".cu", ".cuh")
DATA_DIRS = ("corpus", "golden", "goldens", "data", "fixtures", "testdata")  # made by a script or found: no style rules
MAX_FILE_BYTES = 2 * 1024 * 1024  # larger files are data


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class Tree:
    def __init__(self, root: str):
        self.root = os.path.abspath(root)
        self._texts: dict[str, str] = {}
        self.paths = sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, dirs, names in os.walk(self.root):
            at_root = folder == self.root
            dirs[:] = [d for d in dirs if d not in SKIPPED_DIRS
                       and not (at_root and (d == "build" or d.startswith("build-")))]
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root).replace(os.sep, "/")
                if name != ".git" and not name.endswith(BINARY_SUFFIXES) \
                        and os.path.getsize(os.path.join(folder, name)) <= MAX_FILE_BYTES:
                    yield path

    def text(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 become replacement characters (seed inputs may hold any)."""
        if path not in self._texts:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace", newline="") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def cpp(self) -> list[str]:
        """C++ and CUDA sources and headers, without data folders."""
        return [p for p in self.paths if p.endswith(CPP_SUFFIXES) and not is_data(p)]

    def python(self) -> list[str]:
        """Python sources: by suffix, or scripts whose first line names python3."""
        return [p for p in self.paths if not is_data(p)
                and (p.endswith(".py") or (p.startswith("scripts/") and "python3" in self.text(p).split("\n", 1)[0]))]

    def cmake(self) -> list[str]:
        return [p for p in self.paths if p.endswith((".cmake", "CMakeLists.txt"))]

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self.root, path))


def is_data(path: str) -> bool:
    return any(part in DATA_DIRS for part in path.split("/")[:-1])


def is_test(path: str) -> bool:
    """True for what is not part of the product: tests/, bench/, fuzz/, and x_test, x_fuzz, x_bench, test_x beside it."""
    stem = os.path.basename(path).rsplit(".", 1)[0]
    return path.startswith(("tests/", "bench/", "fuzz/")) or bool(
        re.search(r"^test_|_(test|testing|fuzz|bench|probe)(_|$)", stem))


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
