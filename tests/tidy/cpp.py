"""A pragmatic reader of C++ for the tidy test: which functions does a file define or declare, and where.

It is not a parser. Comments, strings and preprocessor lines are blanked (offsets stay true), then braces are followed at
namespace and class level; what stands before a brace or a semicolon there is a "head". A head with an argument list is a
function. That is enough for this project's style; where it is wrong, it errs by not seeing a function.
"""

import re
from typing import NamedTuple, Optional

_LEXEMES = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'",
    re.DOTALL)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)"
                        r"|__(?:launch_bounds|cluster_dims|align)__\s*\((?:[^()]|\([^()]*\))*\)", re.DOTALL)
_NOT_NAMES = {"decltype", "alignas", "requires", "noexcept", "explicit", "if", "for", "while", "switch",
              "return", "static_assert", "sizeof", "defined", "template", "throw", "catch"}


class Function(NamedTuple):
    name: str
    head: int         # offset of the head's first character
    end: int          # offset past the closing brace, or past the semicolon of a declaration
    is_definition: bool


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def strip_comments(text: str) -> str:
    """The text with comments and literals blanked; the same length, the same lines."""
    return _LEXEMES.sub(_blank, text)


def without_comments(text: str) -> str:
    """The text with comments blanked and literals kept; the same length, the same lines."""
    return _LEXEMES.sub(lambda match: _blank(match) if match.group().startswith("/") else match.group(), text)


def strip_preprocessor(code: str) -> str:
    return _PREPROCESSOR.sub(_blank, code)


class Call(NamedTuple):
    name: str                # the last part of the callee's name
    start: int               # offset of the name
    arguments: list[tuple[int, int]]  # begin and end of each, blanks around it left out


def calls(code: str, pattern: str, text: str = "") -> list[Call]:
    """The calls (and declarations) of the functions whose name is wholly matched; `code` without comments and literals,
    `text` with literals (where it matters what an argument is). Template arguments may stand before the parenthesis."""
    found = []
    for match in re.finditer(rf"(?<!\w)({pattern})(?:<[^<>;{{}}()]*>)?\s*\(", code):
        found.append(Call(match.group(1), match.start(), _arguments(code, match.end(), text or code)))
    return found


def _arguments(code: str, begin: int, text: str) -> list[tuple[int, int]]:
    """Of the list whose parenthesis was opened just before `begin`. Commas inside brackets of any kind don't part; a
    template's arguments with commas do, unless they are in a parenthesis."""
    depth, start, parts = 0, begin, []
    for match in re.compile(r"[()\[\]{},]").finditer(code, begin):
        sign = match.group()
        if sign in "([{":
            depth += 1
        elif sign == "," and depth == 0:
            parts.append((start, match.start()))
            start = match.end()
        elif sign in ")]}":
            if depth == 0:
                parts.append((start, match.start()))
                break
            depth -= 1
    trimmed = [(b + len(text[b:e]) - len(text[b:e].lstrip()), b + len(text[b:e].rstrip())) for b, e in parts]
    return [] if len(trimmed) == 1 and trimmed[0][0] >= trimmed[0][1] else trimmed


def matching_brace(code: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)


def _without_angles(head: str) -> str:
    """Template arguments blanked, so that a parenthesis inside them is not taken for an argument list."""
    previous = None
    while previous != head:
        previous = head
        head = re.sub(r"<[^<>;{}]*>", lambda m: " " * len(m.group()), head)
    return head


def function_name(head: str) -> Optional[str]:
    """The name of the function that a head declares; None when the head is something else."""
    operator = re.search(r"\boperator\b\s*(\(\s*\)|[^\s(]+|\s\w+)\s*\(", head)
    if operator:
        return "operator"
    head = _without_angles(_ATTRIBUTE.sub(_blank, head))
    for match in re.finditer(r"(~?\b[A-Za-z_]\w*)\s*\(", head):
        if "=" in head[:match.start()]:
            return None  # the initializer of a variable
        if match.group(1) not in _NOT_NAMES:
            return match.group(1)
    return None


def _is_scope(head: str) -> bool:
    """True for a head whose braces hold declarations: a namespace, a class, extern "C"."""
    bare = _without_angles(re.sub(r"\balignas\s*\([^()]*\)", " ", _ATTRIBUTE.sub(" ", head)))
    if re.search(r"\bnamespace\b|\bextern\s*$", bare):
        return True
    return bool(re.search(r"\b(class|struct|union)\b", bare)) and "(" not in bare and "=" not in bare


def _is_member_initializer(code: str, head: str, brace: int) -> bool:
    """True when the brace opens a member's value (`: a_(b), c_{d} {`) and not the constructor's body."""
    if not re.search(r"\)\s*(noexcept\s*)?:(?!:)", head):
        return False
    return bool(re.search(r"[\w>]\s*$", code[:brace][-80:]))


def functions(text: str) -> list[Function]:
    """The functions that a file defines or declares at namespace or class level, in order of position."""
    code = strip_preprocessor(strip_comments(text))
    found: list[Function] = []
    head_start = 0
    position = 0
    token = re.compile(r"[{};]|\b(?:public|private|protected)\s*:")
    while (match := token.search(code, position)) is not None:
        head = code[head_start:match.start()]
        position = match.end()
        begin = head_start + len(head) - len(head.lstrip())
        if match.group() == "{":
            if _is_scope(head):
                head_start = position
                continue
            end = matching_brace(code, match.start())
            position = end
            name = function_name(head)
            if name is not None and _is_member_initializer(code, head, match.start()):
                continue  # the head goes on after the member's value
            if name is not None:
                found.append(Function(name, begin, end, True))
                head_start = position
            elif "=" not in head and re.search(r"\benum\b", head) is None:
                head_start = position if not re.match(r"\s*[;,]", code[position:]) else head_start
        elif match.group() == ";":
            name = function_name(head)
            if name is not None and not re.match(r"\s*(using|typedef|static_assert|return|friend)\b", head):
                found.append(Function(name, begin, position, "= default" in head))
            head_start = position
        else:  # a closing brace or an access label
            head_start = position
    return found
