#!/usr/bin/env python3
"""Tests of the tidy test itself: small trees, good and bad, made in a temporary folder.

Every rule of tidy.py is shown to pass the good tree and to fail one bad change of it, each for the expected reason; a
rule without such a case fails test_every_rule_is_covered. The reader of C++ has cases of its own.
"""

import os
import tempfile
import unittest

import cpp
import rules_code
import tidy
from tree import Tree

COMMENT = "// What this is,\n// and why it stands apart.\n"
GOOD = {
    "README.md": "Call `minfer::answer` or `answer()`, see `src/base/answer.hpp`, `answer.cpp` and `scripts/go now`.\n"
                 "Type `minfer run MODEL --seed 1 | cat`.\n",
    "src/cli/CMakeLists.txt": "# Command line.\nadd_executable(minfer main.cpp)\n",
    "src/cli/main.cpp": COMMENT + 'int main() { sub("run").option("--seed"); }\n',
    "docs/glossary.md": "[the readme](../README.md), `src/<room>/answer.*`, `std::vector`, `release`.\n",
    "scripts/go": "#!/bin/sh\n# Goes.\n",
    "src/CMakeLists.txt": "# Rooms.\nadd_subdirectory(base)\n",
    "src/base/CMakeLists.txt": "# Base.\nminfer_room(base SOURCES answer.cpp user.cpp)\nminfer_test(answer_test SOURCES "
                               "answer_test.cpp)\n",
    "src/base/answer.hpp": COMMENT + "#pragma once\nnamespace minfer {\nint answer(int x);\n}\n",
    "src/base/answer.cpp": COMMENT + '#include "base/answer.hpp"\nnamespace minfer {\nint answer(int x) { return x; }\n}\n',
    "src/base/user.cpp": COMMENT + '#include "base/answer.hpp"\nconst int kUse = minfer::answer(1);\n',
    "src/base/answer_test.cpp": COMMENT + '#include "base/answer.hpp"\nTEST(Answer, Same) { EXPECT_EQ(minfer::answer(1), 1); }\n',
}
USER = "src/base/user.cpp"


def long_function(lines: int) -> str:
    return "static int many() {\n" + "  work();\n" * (lines - 2) + "}\nconst int kMany = many();\n"


# rule -> (file, new text; None: no such file), words of the expected finding. "+" before a text appends it to the good file.
BAD = {
    "file_size": [
        (USER, "+" + "int filler;\n" * 500, "at most 500"),
        ("src/base/answer.hpp", "+" + "int filler();\n" * 200, "at most 200"),
        ("src/base/answer_test.cpp", "+" + "int filler;\n" * 600, "at most 600"),
    ],
    "header_comment": [
        (USER, "#include <vector>\n", "at least 1"),
        (USER, "// One.\n" + "int x;\n" * 150, "at least 2"),
        (USER, "// Line.\n" * 26, "at most 25"),
        ("scripts/go", "#!/bin/sh\necho\n", "at least 1"),
        ("src/CMakeLists.txt", "add_subdirectory(base)\n", "at least 1"),
    ],
    "words": [
        (USER, "+// TO" + "DO: later\n", "unfinished"),
        (USER, "+// FIX" + "ME\n", "unfinished"),
        ("README.md", "+Look in /wo" + "rk/shared.\n", "machine_name"),
        ("scripts/go", "+cd /ro" + "ot/x\n", "machine_name"),
        ("scripts/go", "+fetch https://py" + "pi.org/simple\n", "machine_name"),
    ],
    "line_ends": [
        (USER, "+int x; \n", "blanks"),
        (USER, "+int x;\r\n", "carriage"),
        (USER, "+int x;", "no newline"),
    ],
    "include_direction": [
        (USER, '+#include "tensor/dtype.hpp"\n', "base may not include tensor"),
        (USER, '+#include "answer.hpp"\n', "must start with a room"),
        (USER, '+#include "devices.hpp"\n', "may include devices.hpp"),
        ("src/engine/step.cpp", COMMENT + '#include "cpu/executor/run.hpp"\n', "engine may not include cpu"),
        ("src/cpu/runtime/x.cpp", COMMENT + '#include "cpu/executor/run.hpp"\n', "cpu/runtime may not include cpu/executor"),
        ("src/cpu/x/y.cpp", COMMENT + '#include "model/config.hpp"\n', "cpu may not include model"),
        ("src/misc/x.cpp", COMMENT + '#include "base/answer.hpp"\n', "not a room"),
    ],
    "banned_calls": [
        (USER, '+const char* kHome = std::getenv("HOME");\n', "environment"),
        (USER, '+void p() { printf("x"); }\n', "printing"),
        (USER, "+void p() { std::cout << 1; }\n", "printing"),
        (USER, "+void p() { std::exit(1); }\n", "exiting"),
        (USER, "+void p() { abort(); }\n", "exiting"),
        (USER, "+int p() { return rand(); }\n", "unsafe_call"),
        (USER, '+int p() { return std::atoi("1"); }\n', "unsafe_call"),
        ("src/chat/x.cpp", COMMENT + "std::thread worker;\n", "thread"),
        (USER, "+using namespace std;\n", "using_namespace"),
        ("src/chat/x.cpp", COMMENT + "#define TWICE(x) ((x) * 2)\n", "macro"),
    ],
    "skipped_tests": [
        ("src/base/answer_test.cpp", "+TEST(A, B) { GTEST_SKIP(); }\n", "may skip only"),
        ("src/base/answer_test.cpp", "+TEST(A, DISABLED_B) {}\n", "enable or remove"),
        (rules_code.SKIP_LIST, "src/base/answer_test.cpp\n", "skips nothing"),
    ],
    "function_length": [
        (USER, "+" + long_function(81), "81 lines, at most 80"),
        ("scripts/tool.py", "# A\n# tool.\ndef many():\n" + "    pass\n" * 80, "81 lines, at most 80"),
    ],
    "build_lists": [
        ("src/base/stray.cpp", COMMENT, "no CMake file lists"),
        ("src/base/CMakeLists.txt", "# Base.\nfile(GLOB sources *.cpp)\n", "not found by pattern"),
    ],
    "unused_functions": [
        (USER, COMMENT, "answer has no caller"),
        (USER, "+int again(int x) { return again(x - 1); }\n", "again has no caller"),
        (USER, "+struct S { int alone() const { return 1; } };\n", "alone has no caller"),
        (USER, "+struct B { virtual int alone() { return 0; } };\nstruct S : B { int alone() override { return 1; } };\n",
         "alone has no caller"),
        ("tests/tidy/unused_allow.txt", "1\nanswer\n", "take it off"),
        ("tests/tidy/unused_allow.txt", "2\n", "only shrinks"),
    ],
    "document_names": [
        ("README.md", "`src/base/missing.hpp`\n", "no such file"),
        ("README.md", "`missing.cpp`\n", "no such file"),
        ("README.md", "`minfer::missing`\n", "no such name"),
        ("README.md", "`missing()`\n", "no such name"),
        ("README.md", "`missing_name`\n", "no such name"),
        ("README.md", "`minfer walk FILE`\n", "no such subcommand"),
        ("README.md", "`minfer run MODEL --missing`\n", "no such option"),
        ("README.md", "[text](docs/missing.md)\n", "no such file"),
        ("docs/glossary.md", "```\nscripts/missing\n```\n", "no such file"),
    ],
}


class RulesTest(unittest.TestCase):
    def findings(self, rule, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8", newline="") as file:
                    file.write(text)
            return [str(finding) for finding in rule(Tree(root))]

    def test_every_rule_is_covered(self):
        self.assertEqual({rule.__name__ for rule in tidy.RULES}, set(BAD))

    def test_good_tree_passes(self):
        for rule in tidy.RULES:
            self.assertEqual(self.findings(rule, GOOD), [], rule.__name__)

    def test_every_rule_can_fail(self):
        for rule in tidy.RULES:
            for path, text, expected in BAD[rule.__name__]:
                with self.subTest(rule=rule.__name__, file=path, expected=expected):
                    files = dict(GOOD)
                    files[path] = files.get(path, COMMENT) + text[1:] if text.startswith("+") else text
                    findings = self.findings(rule, files)
                    self.assertTrue(any(expected in finding for finding in findings), findings)

    def test_allowed_places(self):
        files = dict(GOOD)
        files["src/base/options.cpp"] = COMMENT + 'const char* kHome = std::getenv("HOME");\n'
        files["src/cli/main.cpp"] = COMMENT + "int main() { std::cout << 1; std::exit(2); }\n"
        files["src/base/pool.cpp"] = COMMENT + "std::thread worker;\n#define MINFER_X 1\n"
        files[USER] += "// printf(\"x\") and std::cout in a comment\nconst char* kText = \"std::exit(1)\";\n"
        self.assertEqual(self.findings(rules_code.banned_calls, files), [])

    def test_allow_list_is_honoured(self):
        files = dict(GOOD)
        files[USER] = COMMENT
        files["tests/tidy/unused_allow.txt"] = "# Reason.\n1\nanswer\n"
        self.assertEqual(self.findings(tidy.rules_names.unused_functions, files), [])

    def test_what_a_library_or_a_fuzzer_calls_is_used(self):
        files = dict(GOOD)
        files[USER] += "struct S : Handler { bool null() override { return true; } };\nint entry() { return 1; }\n"
        files["src/base/answer_fuzz.cpp"] = COMMENT + "int run() { return entry(); }\n"
        self.assertEqual(self.findings(tidy.rules_names.unused_functions, files), [])

    def test_layers_and_rooms_that_may_be_included(self):
        files = dict(GOOD)
        files["src/cpu/executor/x.cpp"] = COMMENT + '#include "cpu/launch/a.hpp"\n#include "graph/ir.hpp"\n'
        files["src/cli/main.cpp"] = COMMENT + '#include "devices.hpp"\n#include "engine/engine.hpp"\n'
        files["src/devices.cpp"] = COMMENT + '#include "cpu/executor/backend.hpp"\n#include "devices.hpp"\n'
        self.assertEqual(self.findings(rules_code.include_direction, files), [])


class CppTest(unittest.TestCase):
    def names(self, code, definitions=True):
        return [f.name for f in cpp.functions(code) if f.is_definition == definitions]

    def test_functions_in_namespaces_and_classes(self):
        code = ("namespace a::b {\nclass C : public D<int> {\n public:\n  explicit C(int x) : x_{x}, y_(x) { run(); }\n"
                "  int get() const { if (x_) { return 1; } return 2; }\n  void set(int x);\n private:\n  int x_ = 0;\n};\n"
                "template <class T>\nauto make(std::function<void(T)> f) -> std::vector<T> { return {}; }\n}\n")
        self.assertEqual(self.names(code), ["C", "get", "make"])
        self.assertEqual(self.names(code, definitions=False), ["set"])

    def test_not_functions(self):
        code = ("struct Row { int a; };\nconst Row kRows[] = {{f(1)}, {2}};\nenum class E { x, y };\nauto kLambda = [](int x) "
                "{ return x; };\n#define F(x) int g(x) { }\nusing T = int (*)(int);\n// int h() { }\nconst char* s = \"int i() {\";\n")
        self.assertEqual(self.names(code), [])
        self.assertEqual(self.names(code, definitions=False), [])

    def test_attributes_operators_and_literals(self):
        code = ("[[nodiscard]] int a() { return '{'; }\n__attribute__((target(\"avx2\"))) void b() { }\n"
                "bool operator==(const X& x, const X& y) { return true; }\nint c() { return 1'000'000; }\n"
                "int d() { return R\"(})\"[0]; }\nextern \"C\" { int e() { return 1; } }\n")
        self.assertEqual(self.names(code), ["a", "b", "operator", "c", "d", "e"])

    def test_extent_of_a_function(self):
        code = "int x;\nint f() {\n  return 1;\n}\nint g() { return 2; }\n"
        f, g = cpp.functions(code)
        self.assertEqual(code[f.head:f.end], "int f() {\n  return 1;\n}")
        self.assertEqual(code[g.head:g.end], "int g() { return 2; }")


if __name__ == "__main__":
    unittest.main()
