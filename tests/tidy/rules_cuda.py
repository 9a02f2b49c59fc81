"""Tidy rules of the CUDA room: one way to launch, a guard before every call that a test can make fail, statuses checked,
and kernel sources free of fmt.

Launches and guarded calls are at sites, "family/name", by which errors name them and tests make them fail. The table
SITES_FILE lists every site; launch_sites.py writes it. A site is a literal, a name that stands for one or several, or a
parameter `const char* site` of a function whose own callers then name it. Each rule takes a Tree and yields findings.
"""

import re
from typing import Iterator, NamedTuple, Optional

import cpp
from tree import Finding, Tree, is_test, line_of

ROOM = "src/cuda/"
LAUNCH_HEADER = "src/cuda/runtime/launch.hpp"
SITES_FILE = "src/cuda/launch_sites.txt"
SITE_FORM = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*")
GUARD = "guard_call"
LAUNCH = "launch_kernel"

# What a site does, by what its function calls; the first row that fits. A guard alone waits for the card.
KINDS = [
    ("kernel", LAUNCH),
    ("library", r"cublas\w+"),
    ("graph", r"cudaGraphLaunch|cudaStreamBeginCapture"),
    ("copy", r"cudaMem(?:cpy|set)\w*"),
    ("wait", r"\w*"),
]
GUARDED = r"cudaMem(?:cpy|set)\w*|cudaGraphLaunch|cudaStreamBeginCapture|cublas(?:Lt)?\w*(?:Matmul|[Gg]emm\w*)"
STATUS_CALLS = r"cuda[A-Z]\w*|cublas\w+|cu[A-Z]\w*"
# Not statuses: texts, the error that is being cleared, what kernels call, types.
NO_STATUS = re.compile(r"cuda\w*GetErrorString|cuda\w*GetErrorName|cublas\w*StatusString|cublas\w*StatusName|cudaGetLastError|"
                       r"cudaPeekAtLastError|cudaGridDependencySynchronize|cudaTriggerProgrammaticLaunchCompletion|\w+_t")
# A release can only repeat an error from before, which the next guard reports.
RELEASES = re.compile(r"cuda\w*Destroy|cudaFree\w*|cublas\w*Destroy\w*")
FMT_HEADERS = re.compile(r"(?:fmt|spdlog)/.*")
FMT_OWN_HEADERS = {"base/error.hpp", "base/log.hpp"}


def _sources(tree: Tree) -> list[str]:
    return [path for path in tree.cpp() if path.startswith(ROOM)]


def _product(tree: Tree) -> list[str]:
    return [path for path in _sources(tree) if not is_test(path)]


def launches(tree: Tree) -> Iterator[Finding]:
    """Kernels are launched by launch_kernel alone, in sources and .cuh files; no memory is managed."""
    for path in tree.cpp():
        code = cpp.strip_comments(tree.text(path))
        for match in re.finditer(r"\bcudaMallocManaged\b|__managed__|\bcuMemAllocManaged\b", code):
            yield Finding(path, line_of(code, match.start()), "managed_memory", f"'{match.group()}': allocate a DeviceBuffer")
        if not path.startswith(ROOM):
            continue
        for match in re.finditer(r"<<<", code):
            yield Finding(path, line_of(code, match.start()), "launch", "'<<<' checks nothing: call launch_kernel")
        for match in re.finditer(r"\b(?:cudaLaunch(?:Cooperative)?Kernel\w*|cuLaunch\w+)\b", code):
            if path != LAUNCH_HEADER:
                yield Finding(path, line_of(code, match.start()), "launch", f"'{match.group()}': call launch_kernel")
        if path.endswith(".hpp") and path != LAUNCH_HEADER and not is_test(path):
            for call in cpp.calls(code, LAUNCH):
                yield Finding(path, line_of(code, call.start), "launch", "a header doesn't launch: declare a launcher, and "
                              "launch in the unit that instantiates the kernel")


# --- sites -----------------------------------------------------------------------------------------------------------


class Site(NamedTuple):
    site: str
    path: str
    kind: str


class _Taker(NamedTuple):
    """A function that is given a site."""
    name: str
    path: str
    index: int            # of the site among its parameters
    counts: range         # of arguments that a call may have
    is_declared: bool     # in a header: other files may call it
    kind: str


class _File:
    def __init__(self, tree: Tree, path: str):
        self.path = path
        self.text = tree.text(path)
        self.code = cpp.strip_preprocessor(cpp.strip_comments(self.text))
        self.plain = cpp.without_comments(self.text)
        self.functions = [f for f in cpp.functions(self.text) if f.is_definition]

    def enclosing(self, offset: int) -> Optional[cpp.Function]:
        return next((f for f in self.functions if f.head <= offset < f.end), None)

    def parameters(self, function: cpp.Function) -> list[str]:
        found = [c for c in cpp.calls(self.code[function.head:function.end], re.escape(function.name))]
        return [self.code[function.head + b:function.head + e] for b, e in found[0].arguments] if found else []


def _site_parameter(parameters: list[str], name: str) -> Optional[int]:
    for index, parameter in enumerate(parameters):
        if re.fullmatch(rf"const\s+char\s*\*\s*(?:const\s+)?{re.escape(name)}", parameter):
            return index
    return None


def _named_literals(file: _File, name: str) -> list[str]:
    """The literals that a name stands for: `const char* name = "a/b"` or `= condition ? "a/b" : "a/c"`."""
    found = re.search(rf"\bconst(?:expr)?\s+(?:const\s+)?char\s*(?:\*\s*(?:const\s+)?{name}|{name}\s*\[\s*\])\s*=\s*([^;]+);",
                      file.plain)
    if found is None:
        return []
    value = found.group(1)
    is_choice = re.fullmatch(r'(?:[^?"]+\?\s*"[^"]*"\s*:\s*)*"[^"]*"', value.strip())
    return re.findall(r'"([^"]*)"', value) if is_choice else []


def _kind(body: str) -> str:
    return next(kind for kind, pattern in KINDS if cpp.calls(body, pattern))


class Sites:
    """Every site of the room, and what is wrong with how they are given."""

    def __init__(self, tree: Tree):
        self.files = {path: _File(tree, path) for path in _product(tree)}
        self.includes = {path: _closure(tree, path) for path in self.files}
        self.found: set[Site] = set()
        self.findings: list[Finding] = []
        queue = [_Taker(LAUNCH, LAUNCH_HEADER, 1, range(4, 1000), True, "kernel"),
                 _Taker(GUARD, LAUNCH_HEADER, 1, range(2, 3), True, "")]
        seen = set(queue)
        while queue:
            for taker in self._callers(queue.pop()):
                if taker not in seen:
                    seen.add(taker)
                    queue.append(taker)
        self.findings.sort()

    def _callers(self, taker: _Taker) -> Iterator[_Taker]:
        """Collects the sites that callers of `taker` name; yields the callers that are given theirs."""
        for path, file in self.files.items():
            if path != taker.path and not (taker.is_declared and self._sees(path, taker)):
                continue
            for call in cpp.calls(file.code, re.escape(taker.name), file.plain):
                function = file.enclosing(call.start)
                if path == LAUNCH_HEADER or len(call.arguments) not in taker.counts or _is_head(file, function, call):
                    continue
                begin, end = call.arguments[taker.index]
                if function is None:
                    if not re.match(r"const\s+char\s*\*", file.plain[begin:end]):  # else it is the declaration
                        self._report(file, begin, f"{taker.name} outside of any function that this test can see")
                    continue
                kind = taker.kind or _kind(file.code[function.head:function.end])
                yield from self._take(file, function, file.plain[begin:end], begin, kind)

    def _sees(self, path: str, taker: _Taker) -> bool:
        header = taker.path if taker.path.endswith((".hpp", ".cuh")) else re.sub(r"\.(cpp|cu)$", ".hpp", taker.path)
        return header in self.includes[path]

    def _take(self, file: _File, function: cpp.Function, argument: str, offset: int, kind: str) -> Iterator[_Taker]:
        literals = re.findall(r'"([^"]*)"', argument) if re.fullmatch(r'"[^"]*"', argument) else []
        if not literals and re.fullmatch(r"[A-Za-z_]\w*", argument):
            parameters = file.parameters(function)
            index = _site_parameter(parameters, argument)
            if index is not None:
                least = sum("=" not in parameter for parameter in parameters)
                header = re.sub(r"\.(cpp|cu)$", ".hpp", file.path)
                is_declared = file.path.endswith((".hpp", ".cuh")) or header in self.files and any(
                    f.name == function.name for f in cpp.functions(self.files[header].text))
                yield _Taker(function.name, file.path, index, range(least, len(parameters) + 1), is_declared, kind)
                return
            literals = _named_literals(file, argument)
        if not literals:
            self._report(file, offset, f"'{argument}' in {function.name}: a site is a literal, a name for literals in this "
                         "file, or a parameter 'const char*' of its function")
        for literal in literals:
            if not SITE_FORM.fullmatch(literal):
                self._report(file, offset, f"'{literal}': a site is \"family/name\", in small letters")
            self.found.add(Site(literal, file.path, kind))

    def _report(self, file: _File, offset: int, text: str) -> None:
        self.findings.append(Finding(file.path, line_of(file.text, offset), "launch_site", text))


def _is_head(file: _File, function: Optional[cpp.Function], call: cpp.Call) -> bool:
    """Whether what looks like a call is the head of that function's own definition."""
    return function is not None and function.name == call.name and "{" not in file.code[function.head:call.start]


def table(sites: set[Site]) -> str:
    """The text of SITES_FILE."""
    head = ("# Every place of src/cuda that launches, copies, replays, waits or calls a library: site, file, kind. The fault\n"
            "# lever makes each fail by its name. Written by tests/tidy/launch_sites.py --write; tidy compares it.\n")
    return head + "".join(f"{s.site} {s.path} {s.kind}\n" for s in sorted(sites))


def launch_sites(tree: Tree) -> Iterator[Finding]:
    """Every launch and guarded call is at a site of the table, and the table has no other."""
    sites = Sites(tree)
    yield from sites.findings
    present = tree.text(SITES_FILE) if tree.exists(SITES_FILE) else ""
    lines = {line for line in present.split("\n") if line and not line.startswith("#")}
    wanted = {" ".join(site) for site in sites.found}
    advice = "run tests/tidy/launch_sites.py --write"
    for line in sorted(wanted - lines):
        yield Finding(line.split()[1], 1, "launch_site", f"{SITES_FILE} lacks '{line}': {advice}")
    for line in sorted(lines - wanted):
        yield Finding(SITES_FILE, 1, "launch_site", f"there is no '{line}': {advice}")
    if lines == wanted and lines and present != table(sites.found):
        yield Finding(SITES_FILE, 1, "launch_site", f"not in order: {advice}")


# --- calls -----------------------------------------------------------------------------------------------------------


def guarded_calls(tree: Tree) -> Iterator[Finding]:
    """Copies, clears, recordings, replays and products of libraries come after guard_call in their function."""
    for path in _product(tree):
        file = _File(tree, path)
        for call in cpp.calls(file.code, GUARDED):
            function = file.enclosing(call.start)
            before = file.code[function.head:call.start] if function else ""
            if not cpp.calls(before, GUARD):
                yield Finding(path, line_of(file.code, call.start), "guarded_call",
                              f"{call.name} without guard_call before it in its function")


def checked_status(tree: Tree) -> Iterator[Finding]:
    """No status of CUDA or cuBLAS is dropped, but by a destructor, a release, or a handler that throws on."""
    for path in _product(tree):
        file = _File(tree, path)
        for call in cpp.calls(file.code, STATUS_CALLS):
            if NO_STATUS.fullmatch(call.name) or RELEASES.fullmatch(call.name):
                continue
            before = re.sub(r"(?:static_cast\s*<\s*void\s*>\s*\(|\(\s*void\s*\))\s*$", ";", file.code[:call.start]).rstrip()
            before = re.sub(r"(?:std\s*)?::$", "", before).rstrip()
            if not re.search(r"(?:^|[;{}:)]|\belse|\bdo)$", before) or before.endswith("::"):
                continue
            function = file.enclosing(call.start)
            if function is not None and (function.name.startswith("~") or _in_handler(file.code, function, call.start)):
                continue
            yield Finding(path, line_of(file.code, call.start), "checked_status",
                          f"the status of {call.name} is dropped: check_status(..., site), or assign and look at it")


def _in_handler(code: str, function: cpp.Function, offset: int) -> bool:
    """Whether the offset is inside a `catch` block that throws on."""
    for match in re.finditer(r"\bcatch\s*\([^)]*\)\s*\{", code[function.head:offset]):
        end = cpp.matching_brace(code, function.head + match.end() - 1)
        if offset < end and re.search(r"\bthrow\s*;", code[offset:end]):
            return True
    return False


# --- includes --------------------------------------------------------------------------------------------------------


def _included(tree: Tree, path: str) -> list[str]:
    """What a file includes, as written."""
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', tree.text(path), re.MULTILINE)


def _closure(tree: Tree, path: str) -> dict[str, str]:
    """Everything that a file includes, directly or not -> the file that includes it. Own headers are paths of the tree."""
    found: dict[str, str] = {}
    pending = [path]
    while pending:
        current = pending.pop()
        for name in _included(tree, current):
            target = "src/" + name if tree.exists("src/" + name) else name
            if target not in found:
                found[target] = current
                if target != name:
                    pending.append(target)
    return found


def kernel_includes(tree: Tree) -> Iterator[Finding]:
    """The compiler of kernel sources meets no fmt: not base/error.hpp, base/log.hpp or fmt itself, by any way."""
    for path in tree.cpp():
        if not path.endswith((".cu", ".cuh")):
            continue
        found = _closure(tree, path)
        for target in sorted(found):
            name = target.removeprefix("src/")
            if name not in FMT_OWN_HEADERS and not FMT_HEADERS.fullmatch(name):
                continue
            if found[target].removeprefix("src/") in FMT_OWN_HEADERS:
                continue  # that header is reported
            way = [name]
            while found[target] != path:
                target = found[target]
                way.insert(0, target.removeprefix("src/"))
            yield Finding(path, 1, "kernel_includes", f"includes {' -> '.join(way)}: throw from a .cpp, or by check_status")
