"""Tidy rules that look at code: include direction between rooms, banned calls, function length, the build lists.

The tables at the top are the contract: a new room is a row of ROOMS. Each rule takes a Tree and yields findings.
"""

import ast
import os
import re
from typing import Iterator

import cpp
from tree import Finding, Tree, is_test, line_of

# Which rooms a room may include, besides itself. devices.cpp and tests/ may include any.
_LIBRARY = {"base", "tensor", "gguf", "tokenizer", "chat", "graph", "model"}
ROOMS = {
    "base": set(),
    "tensor": {"base"},
    "gguf": {"base", "tensor"},
    "tokenizer": {"base", "tensor", "gguf"},
    "chat": {"base"},
    "graph": {"base", "tensor"},
    "model": _LIBRARY,
    "cpu": {"base", "tensor", "graph"},
    "cuda": {"base", "tensor", "graph"},
    "metal": {"base", "tensor", "graph"},
    "engine": _LIBRARY,
    "server": _LIBRARY | {"engine"},
    "cli": _LIBRARY | {"engine", "server"},
}
DEVICE_ROOMS = {"cpu", "cuda", "metal"}
DEVICES_HEADER = "devices.hpp"  # the composition root's header
USES_DEVICES = {"cli", "server"}
# The layers of a device room: what a layer's files may include of their own room.
LAYERS = {
    "runtime": {"runtime"},
    "launch": {"runtime", "launch"},
    "kernels": {"runtime", "launch", "kernels"},
    "executor": {"runtime", "launch", "executor"},
    "module": {"executor", "module"},
}
# Files of a room that are built without the rest of it, by the beginning of their path -> what they may include.
APART = {"src/cuda/module/loader.": ("base/", "graph/", "cuda/module/")}

MAX_FUNCTION_LINES = 80
LONG_FUNCTION_LINES = 60  # reported, not failed; the aim is 40

# (rule, pattern, where it is allowed, what to do instead). Patterns see code without comments and strings.
BANNED = [
    ("environment", r"\b(?:secure_)?getenv\s*\(", lambda p: p == "src/base/options.cpp" or is_test(p),
     "the environment is read in src/base/options.cpp only"),
    ("printing", r"\b(?:printf|fprintf|puts|fputs|putchar|perror)\s*\(|\bstd::(?:cout|cerr|clog)\b|\bfmt::print\b",
     lambda p: p.startswith("src/cli/") or is_test(p), "libraries don't print: throw, or log through base/log.hpp"),
    ("exiting", r"(?<![\w.>])(?:std::)?(?:exit|_exit|_Exit|quick_exit|abort|terminate)\s*\(",
     lambda p: p.startswith("src/cli/") or is_test(p), "libraries don't end the process: throw minfer::Error"),
    ("unsafe_call", r"(?<![\w.>])(?:std::)?(?:rand|srand|strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof)"
     r"\s*\(", lambda p: False, "use a checked or seeded counterpart"),
    ("thread", r"\bstd::j?thread\b(?!::)", lambda p: p.startswith(("src/base/", "src/engine/engine.", "src/server/")) or is_test(p),
     "threads belong to the pool of base/thread_pool.hpp, or are the engine's own"),
    ("using_namespace", r"^using\s+namespace\b", lambda p: False, "write using declarations, or the qualified name"),
    ("macro", r"^[ \t]*#[ \t]*define[ \t]+(?!PCRE2_CODE_UNIT_WIDTH\b)\w+", lambda p: p.startswith("src/base/") or is_test(p),
     "macros live in base and start with MINFER_"),
]
# Files whose tests may skip, one a line: they need a model, public test data or an instruction set.
SKIP_LIST = "tests/tidy/skip_allow.txt"


def _room(path: str) -> str:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else ""


def _includes(text: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', text, re.MULTILINE):
        yield line_of(text, match.start()), match.group(1)


def _include_fault(path: str, target: str) -> str:
    """What is wrong with this include; empty when nothing."""
    room, other = _room(path), target.split("/")[0]
    for beginning, allowed in APART.items():
        if path.startswith(beginning) and not target.startswith(allowed):
            return f"{beginning}* is built everywhere and may include only {', '.join(allowed)}"
    if target == DEVICES_HEADER:
        return "" if room in USES_DEVICES or path.startswith(("src/devices", "tests/", "bench/")) else \
            f"only {', '.join(sorted(USES_DEVICES))} may include {DEVICES_HEADER}"
    if path.startswith(("tests/", "bench/", "fuzz/")) and other not in ROOMS:
        return ""
    if other not in ROOMS or "/" not in target:
        return f"'{target}' must start with a room's name, as in \"base/error.hpp\""
    if path.startswith(("src/devices", "tests/", "bench/", "fuzz/")):
        return ""
    if room not in ROOMS:
        return f"src/{room} is not a room of tests/tidy/rules_code.py"
    if other != room:
        return "" if other in ROOMS[room] else f"{room} may not include {other} (only {', '.join(sorted(ROOMS[room]))})"
    if room in DEVICE_ROOMS and not is_test(path):
        layer, other_layer = path.split("/")[2], target.split("/")[1]
        if layer in LAYERS and other_layer in LAYERS and other_layer not in LAYERS[layer]:
            return f"{room}/{layer} may not include {room}/{other_layer}"
    return ""


def include_direction(tree: Tree) -> Iterator[Finding]:
    """Includes point downwards: base <- tensor <- gguf, tokenizer, chat, graph <- model <- engine <- server, cli."""
    for path in tree.cpp():
        for line, target in _includes(tree.text(path)):
            fault = _include_fault(path, target)
            if fault:
                yield Finding(path, line, "include_direction", fault)


def banned_calls(tree: Tree) -> Iterator[Finding]:
    """Calls that hide input, print, end the process or can't fail safely."""
    for path in tree.cpp():
        code = cpp.strip_comments(tree.text(path))
        for rule, pattern, allowed, advice in BANNED:
            if allowed(path):
                continue
            for match in re.finditer(pattern, code, re.MULTILINE):
                yield Finding(path, line_of(code, match.start()), rule, f"'{match.group().strip()}': {advice}")


def skipped_tests(tree: Tree) -> Iterator[Finding]:
    """Only the tests of SKIP_LIST may skip, and none is disabled; the list names no file that doesn't skip."""
    listed = {line for line in tree.text(SKIP_LIST).split("\n") if line and not line.startswith("#")} \
        if tree.exists(SKIP_LIST) else set()
    skipping = set()
    for path in tree.cpp():
        code = cpp.strip_comments(tree.text(path))
        for match in re.finditer(r"\bGTEST_SKIP\b|\bDISABLED_\w+", code):
            if match.group() != "GTEST_SKIP":
                yield Finding(path, line_of(code, match.start()), "skipped_test", f"'{match.group()}': enable or remove it")
                continue
            skipping.add(path)
            if path not in listed:
                yield Finding(path, line_of(code, match.start()), "skipped_test",
                              f"a test may skip only for a model, public data or an instruction set: {SKIP_LIST}")
    for path in sorted(listed - skipping):
        yield Finding(SKIP_LIST, 1, "skipped_test", f"{path} skips nothing: take it off the list")


def function_length(tree: Tree, limit: int = MAX_FUNCTION_LINES) -> Iterator[Finding]:
    """Functions aim at 40 lines and have at most 80; tests are free."""
    for path in tree.cpp():
        if is_test(path):
            continue
        text = tree.text(path)
        for function in cpp.functions(text):
            lines = text.count("\n", function.head, function.end) + 1
            if lines > limit:
                yield Finding(path, line_of(text, function.head), "function_length",
                              f"{function.name} has {lines} lines, at most {limit}; aim at 40")
    for path in tree.python():
        for node in ast.walk(ast.parse(tree.text(path))):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > limit:
                yield Finding(path, node.lineno, "function_length",
                              f"{node.name} has {node.end_lineno - node.lineno + 1} lines, at most {limit}; aim at 40")


def _listed_sources(tree: Tree) -> set[str]:
    """Every source that a CMake file names, relative to the root."""
    listed = set()
    for path in tree.cmake():
        text = re.sub(r"#[^\n]*", "", tree.text(path))
        names = re.findall(r"[\w./${}-]+\.(?:cpp|cu)\b", text)
        for variable, items in re.findall(r"\bforeach\s*\(\s*(\w+)\s+IN\s+ITEMS\s+([^)]*)\)", text):
            names += [name.replace(f"${{{variable}}}", item) for name in names for item in items.split()]
        for name in names:
            name = re.sub(r"\$\{(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}/", "", name)
            from_root = re.sub(r"\$\{(PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR|minfer_SOURCE_DIR)\}/", "", name)
            folder = "" if from_root != name else os.path.dirname(path)
            listed.add(os.path.normpath(os.path.join(folder, from_root)).replace(os.sep, "/"))
    return listed


def build_lists(tree: Tree) -> Iterator[Finding]:
    """Every source is named in a CMake file; no pattern finds sources."""
    listed = _listed_sources(tree)
    for path in tree.cpp():
        if path.endswith((".cpp", ".cu")) and path not in listed:
            yield Finding(path, 1, "build_list", "no CMake file lists this source")
    for path in tree.cmake():
        text = re.sub(r"#[^\n]*", "", tree.text(path))
        match = re.search(r"\bfile\s*\(\s*GLOB|\baux_source_directory\b", text)
        if match:
            yield Finding(path, line_of(text, match.start()), "build_list", "sources are listed by name, not found by pattern")
