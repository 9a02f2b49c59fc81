"""Tidy rules that look at names across files: functions that nobody uses, and what the documents name.

Both are cross-references by identifier, not by type: two functions of one name count as one. So a finding is nearly
always right, and something unused may stay unseen. Each rule takes a Tree and yields findings.
"""

import fnmatch
import posixpath
import re
from typing import Iterator

import cpp
from tree import Finding, Tree, is_test, line_of

# One name a line; the first line that is not a comment is the most entries that there may be.
UNUSED_LIST = "tests/tidy/unused_allow.txt"

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def _product_files(tree: Tree) -> list[str]:
    return [p for p in tree.cpp() if p.startswith("src/") and not is_test(p)]


def _callers(tree: Tree) -> list[str]:
    """The product, and the fuzz targets: what only they call is their way in (a reader of bytes in memory)."""
    return _product_files(tree) + [p for p in tree.cpp() if p.endswith("_fuzz.cpp")]


def unused_names(tree: Tree) -> dict[str, tuple[str, int]]:
    """name -> (file, line) of each function of src/ that is named nowhere but where it is defined and declared."""
    mentions: dict[str, int] = {}
    heads: dict[str, int] = {}
    defined: dict[str, tuple[str, int]] = {}
    own_names: set[str] = set()  # declared here at least once without `override`
    looked_up: set[str] = set()  # the words that are literals: names by which a module's functions are found
    for path in _callers(tree):
        for match in _IDENTIFIER.finditer(cpp.strip_comments(tree.text(path))):
            mentions[match.group()] = mentions.get(match.group(), 0) + 1
    for path in _product_files(tree):
        text = tree.text(path)
        code = cpp.strip_comments(text)
        looked_up.update(re.findall(r'"([A-Za-z_]\w*)"', cpp.without_comments(text)))
        for function in cpp.functions(text):
            name = function.name
            if re.search(r"\boverride\b", re.split("[{;]", code[function.head:function.end])[0]) is None:
                own_names.add(name)
            # A mention inside the function's own body (recursion) is not a use.
            own = len(re.findall(rf"\b{re.escape(name)}\b", code[function.head:function.end])) if name != "operator" else 0
            if name in looked_up and re.match(r"\s*extern\b", code[function.head:function.end]):
                own = 0
            heads[name] = heads.get(name, 0) + own
            if function.is_definition:
                defined.setdefault(name, (path, line_of(text, function.head)))
    # Constructors (UpperCamel), destructors and operators are used without being named; main is called by the system, and
    # what only overrides, by the library whose handler it is.
    return {name: place for name, place in defined.items()
            if re.match(r"[a-z]", name) and name not in ("main", "operator") and name in own_names
            and mentions.get(name, 0) <= heads[name] and not _is_protocol(name)}


def _is_protocol(name: str) -> bool:
    """Names that the language or a library calls: iteration, and customization points found by lookup."""
    return name in {"begin", "end", "format", "parse", "what", "swap"}


def unused_functions(tree: Tree) -> Iterator[Finding]:
    """Every function has a caller in the product; the allow list only shrinks."""
    unused = unused_names(tree)
    lines = [line for line in tree.text(UNUSED_LIST).split("\n") if line and not line.startswith("#")] \
        if tree.exists(UNUSED_LIST) else ["0"]
    most, allowed = int(lines[0]), lines[1:]
    for name, (path, line) in sorted(unused.items(), key=lambda item: item[1]):
        if name not in allowed:
            yield Finding(path, line, "unused_function", f"{name} has no caller in src/ outside tests: use or remove it")
    for name in allowed:
        if name not in unused:
            yield Finding(UNUSED_LIST, 1, "unused_function", f"{name} is used, or gone: take it off the list")
    if len(allowed) != most:
        yield Finding(UNUSED_LIST, 1, "unused_function",
                      f"{len(allowed)} entries, recorded {most}: the list only shrinks; lower the number with it")


# --- what the documents name ---------------------------------------------------------------------------------------

_SUFFIXES = (".cpp", ".hpp", ".md", ".txt", ".py", ".cmake", ".json", ".sh", ".cu", ".cuh")
_FOREIGN = ("std::", "fmt::", "nlohmann::", "spdlog::")


def _documents(tree: Tree) -> list[str]:
    return [p for p in tree.paths if p == "README.md" or re.fullmatch(r"docs/[\w/-]+\.md", p)]


def _spans(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every `span`, and of every first word of a command in a fenced block."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            for word in re.findall(r"(?:^|\s)((?:\./)?scripts/\S+)", line):
                yield number, word.removeprefix("./")
        else:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
                yield number, link


def _path_exists(tree: Tree, document: str, path: str) -> bool:
    """A path from the root, from src/, from the document, or the end of a path; `<name>`, `*` and `{a,b}` stand for
    anything."""
    pattern = re.sub(r"<[^>]*>|\{[^}]*\}", "*", path).rstrip("/")
    places = [pattern, "src/" + pattern, posixpath.normpath(posixpath.join(posixpath.dirname(document), pattern))]
    if any(tree.exists(place) for place in places):
        return True
    places.append("*/" + pattern)
    return any(fnmatch.fnmatch(file, place) or fnmatch.fnmatch(file, place + "/*")
               for place in places for file in tree.paths)


def _is_path(span: str) -> bool:
    if not re.fullmatch(r"[\w.*<>{},/-]+", span) or span.startswith(("/", "build/", "-")):
        return False
    return span.endswith(_SUFFIXES) or ("/" in span and re.match(r"[\w.]*[a-z][\w.-]*/", span) is not None)


def _symbols(span: str) -> list[str]:
    """The identifiers that a span claims to exist; empty for words, commands and foreign names."""
    if span.startswith(_FOREIGN) or not re.fullmatch(r"[A-Za-z_][\w:]*(?:\(\))?", span):
        return []
    parts = [p for p in re.split(r"::", span.removesuffix("()")) if p]
    is_code = "::" in span or span.endswith("()") or "_" in span or re.search(r"[a-z][A-Z]|[A-Z][a-z]+[A-Z]", span)
    return parts if is_code else []


def _command_faults(tree: Tree, span: str) -> Iterator[str]:
    """What a span `minfer SUBCOMMAND --option` names that the command line's sources don't."""
    sources = "".join(tree.text(p) for p in tree.cpp() if p.startswith("src/cli/"))
    words = span.split()
    if re.fullmatch(r"[a-z]+", words[1]) and f'"{words[1]}"' not in sources:
        yield f"no such subcommand: '{words[1]}' of '{span}'"
    for option in re.findall(r"--[a-z][a-z-]*", span):
        if not re.search(rf"{option}(?![a-z-])", sources):
            yield f"no such option: '{option}' of '{span}'"


def document_names(tree: Tree) -> Iterator[Finding]:
    """Every path, code symbol, and subcommand and option of minfer in backticks in README.md and docs/ exists."""
    known: set[str] = set()
    for path in tree.paths:
        if path.startswith(("src/", "tests/", "scripts/", "cmake/", "bench/")) or path.startswith("CMake"):
            known.update(_IDENTIFIER.findall(tree.text(path)))
    for document in _documents(tree):
        for line, span in _spans(tree.text(document)):
            span = span.split()[0] if span.startswith("scripts/") else span
            if span.startswith("minfer "):
                for fault in _command_faults(tree, span):
                    yield Finding(document, line, "document_names", fault)
            if _is_path(span):
                if not _path_exists(tree, document, span):
                    yield Finding(document, line, "document_names", f"no such file or folder: '{span}'")
                continue
            for symbol in _symbols(span):
                if symbol not in known:
                    yield Finding(document, line, "document_names", f"no such name in the code: '{symbol}' of '{span}'")
