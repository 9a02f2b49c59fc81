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
import rules_cuda
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
GOOD |= {
    "src/cuda/CMakeLists.txt": "# A card.\nminfer_room(cuda SOURCES runtime/launch.cpp kernels/scale.cu executor/run.cpp)\n",
    "src/cuda/runtime/launch.hpp": COMMENT + """#pragma once
void guard_call(const Queue& queue, const char* site);
void move_bytes(const Queue& queue, const char* site, int64_t bytes);
template <class... Args>
void launch_kernel(const Queue& queue, const char* site, Args... args) {
  guard_call(queue, site);
  check_status(cudaLaunchKernelEx(args...), site);
}
""",
    "src/cuda/runtime/launch.cpp": COMMENT + """#include "cuda/runtime/launch.hpp"
void guard_call(const Queue& queue, const char* site) { fail(queue, site); }
void move_bytes(const Queue& queue, const char* site, int64_t bytes) {
  guard_call(queue, site);
  check_status(cudaMemcpyAsync(to, from, bytes, kind, queue.stream), site);
}
""",
    "src/cuda/kernels/scale.cu": COMMENT + """#include "cuda/runtime/launch.hpp"
constexpr const char* kSite = "rows/scale";
template <int n>
__global__ void __launch_bounds__(kThreads) scale_kernel(float* x) { x[0] *= n; }
template <int n>
void launch_times(const Queue& queue, const char* site, float* x) {
  launch_kernel(queue, site, shape, scale_kernel<n>, x);
}
void launch_scale(const Queue& queue, float* x) {
  launch_kernel(queue, kSite, shape, scale_kernel<2>, x);
  launch_times<3>(queue, "rows/triple", x);
  const char* site = x ? "rows/some" : "rows/none";
  launch_kernel(queue, site, shape, scale_kernel<4>, x);
}
""",
    "src/cuda/executor/run.cpp": COMMENT + """#include "cuda/runtime/launch.hpp"
struct Runner {
  ~Runner() { cudaStreamSynchronize(stream_); }
};
int run(const Queue& queue) {
  move_bytes(queue, "step/move", 4);
  launch_scale(queue, nullptr);
  const cudaError_t status = cudaStreamQuery(queue.stream);
  if (status != cudaSuccess) return 1;
  try {
    guard_call(queue, "step/replay");
    check_status(cudaGraphLaunch(graph, queue.stream), "step/replay");
  } catch (...) {
    cudaStreamEndCapture(queue.stream, &graph);
    cudaGetLastError();
    throw;
  }
  return 0;
}
const int kRun = run(kQueue);
""",
    rules_cuda.SITES_FILE: "".join(line + "\n" for line in [
        "# Every place of src/cuda that launches, copies, replays, waits or calls a library: site, file, kind. The fault",
        "# lever makes each fail by its name. Written by tests/tidy/launch_sites.py --write; tidy compares it.",
        "rows/none src/cuda/kernels/scale.cu kernel",
        "rows/scale src/cuda/kernels/scale.cu kernel",
        "rows/some src/cuda/kernels/scale.cu kernel",
        "rows/triple src/cuda/kernels/scale.cu kernel",
        "step/move src/cuda/executor/run.cpp copy",
        "step/replay src/cuda/executor/run.cpp graph"]),
}
KERNEL = "src/cuda/kernels/scale.cu"
RUN = "src/cuda/executor/run.cpp"


def long_function(lines: int) -> str:
    return "static int many() {\n" + "  work();\n" * (lines - 2) + "}\nconst int kMany = many();\n"


# rule -> (file, new text; None: no such file), words of the expected finding. "+" before a text appends it to the good file.
BAD = {
    "file_size": [
        (USER, "+" + "int filler;\n" * 500, "at most 500"),
        ("src/base/answer.hpp", "+" + "int filler();\n" * 200, "at most 200"),
        ("src/base/answer_test.cpp", "+" + "int filler;\n" * 600, "at most 600"),
        (KERNEL, "+" + "int filler;\n" * 800, "at most 800"),
        ("src/cuda/launch/x.cuh", "+" + "int filler;\n" * 200, "at most 200"),
    ],
    "header_comment": [
        (USER, "#include <vector>\n", "at least 1"),
        (USER, "// One.\n" + "int x;\n" * 150, "at least 2"),
        (USER, "// Line.\n" * 26, "at most 25"),
        (KERNEL, "int x;\n", "at least 1"),
        ("src/cuda/kernels/x.cuh", "// One.\n" + "int x;\n" * 150, "at least 2"),
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
        ("src/cuda/launch/x.cpp", COMMENT + '#include "cuda/kernels/x.cuh"\n', "cuda/launch may not include cuda/kernels"),
        (KERNEL, '+#include "cuda/executor/run.hpp"\n', "cuda/kernels may not include cuda/executor"),
        (KERNEL, '+#include "engine/engine.hpp"\n', "cuda may not include engine"),
        (RUN, '+#include "cuda/module/loader.hpp"\n', "cuda/executor may not include cuda/module"),
        ("src/cuda/module/loader.cpp", COMMENT + '#include "cuda/executor/run.hpp"\n', "may include only base/, graph/"),
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
        (KERNEL, '+__global__ void p() { printf("x"); }\n', "printing"),
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
        (KERNEL, "+__global__ void __launch_bounds__(4) " + long_function(81)[len("static int "):], "many has 81 lines"),
        ("scripts/tool.py", "# A\n# tool.\ndef many():\n" + "    pass\n" * 80, "81 lines, at most 80"),
    ],
    "build_lists": [
        ("src/base/stray.cpp", COMMENT, "no CMake file lists"),
        ("src/cuda/kernels/stray.cu", COMMENT, "no CMake file lists"),
        ("src/base/CMakeLists.txt", "# Base.\nfile(GLOB sources *.cpp)\n", "not found by pattern"),
    ],
    "launches": [
        (KERNEL, "+void f() { scale_kernel<2><<<1, 1>>>(x); }\n", "checks nothing"),
        (KERNEL, "+void f() { check_status(cudaLaunchKernelExC(a), b); }\n", "call launch_kernel"),
        (RUN, "+void f() { check_status(cudaLaunchCooperativeKernel(a), b); }\n", "call launch_kernel"),
        (RUN, "+void f() { check_status(cudaLaunchKernel(a), b); }\n", "call launch_kernel"),
        ("src/cuda/launch/x.hpp", '+inline void f() { launch_kernel(q, "a/b", s, k); }\n', "a header doesn't launch"),
        (USER, "+void f() { cudaMallocManaged(&x, 1); }\n", "managed_memory"),
        (KERNEL, "+__managed__ int counter;\n", "managed_memory"),
    ],
    "launch_sites": [
        (KERNEL, '+void f() { launch_kernel(q, "rows/more", s, k); }\n', "lacks 'rows/more src/cuda/kernels/scale.cu kernel'"),
        (RUN, '+void f() { move_bytes(q, "step/more", 1); }\n', "lacks 'step/more src/cuda/executor/run.cpp copy'"),
        (RUN, '+void f() { guard_call(q, "step/more"); set(cublasLtMatmul(h)); }\n', "run.cpp library'"),
        (RUN, '+void f() { guard_call(q, "step/more"); }\n', "run.cpp wait'"),
        (KERNEL, '+void f() { launch_kernel(q, "Rows", s, k); }\n', "a site is \"family/name\""),
        (KERNEL, "+void f() { launch_kernel(q, name(1), s, k); }\n", "'name(1)' in f: a site is a literal"),
        (KERNEL, "+void f(const std::string& text) { guard_call(q, text); }\n", "'text' in f: a site is a literal"),
        (KERNEL, '+void f() { const char* at = pick("rows/a"); guard_call(q, at); }\n', "'at' in f: a site is a literal"),
        (KERNEL, '+const int kX = launch_kernel(q, "rows/scale", s, k);\n', "outside of any function"),
        (RUN, COMMENT, "there is no 'step/move src/cuda/executor/run.cpp copy'"),
        (rules_cuda.SITES_FILE, "".join(sorted(GOOD[rules_cuda.SITES_FILE].splitlines(True), reverse=True)), "not in order"),
    ],
    "guarded_calls": [
        (RUN, "+void f() { check_status(cudaMemsetAsync(a, 0, 4, s), b); }\n", "cudaMemsetAsync without guard_call"),
        (RUN, "+void f() { check_status(cudaMemcpy2DAsync(a), b); guard_call(q, c); }\n", "cudaMemcpy2DAsync without"),
        (RUN, "+void f() { check_status(cudaGraphLaunch(a, s), b); }\n", "cudaGraphLaunch without"),
        (RUN, "+void f() { check_status(cudaStreamBeginCapture(s, m), b); }\n", "cudaStreamBeginCapture without"),
        (KERNEL, "+void f() { check_status(cublasLtMatmul(h), b); }\n", "cublasLtMatmul without"),
    ],
    "checked_status": [
        (RUN, "+void f() { cudaStreamSynchronize(s); }\n", "the status of cudaStreamSynchronize is dropped"),
        (RUN, "+void f() { if (a) cudaMemGetInfo(&a, &b); }\n", "the status of cudaMemGetInfo"),
        (RUN, "+void f() { static_cast<void>(cudaEventRecord(a)); }\n", "the status of cudaEventRecord"),
        (RUN, "+void f() { ::cudaEventRecord(a); }\n", "the status of cudaEventRecord"),
        (RUN, "+void f() { if (a) g(); else cublasLtMatmul(h); }\n", "the status of cublasLtMatmul"),
        (RUN, "+void f() { try { g(); } catch (...) { cudaEventRecord(a); } }\n", "the status of cudaEventRecord"),
    ],
    "kernel_includes": [
        (KERNEL, '+#include "base/error.hpp"\n', "includes base/error.hpp"),
        (KERNEL, "+#include <fmt/format.h>\n", "includes fmt/format.h"),
        ("src/cuda/kernels/x.cuh", COMMENT + '#include "base/log.hpp"\n', "x.cuh:1: kernel_includes: includes base/log.hpp"),
        ("src/cuda/runtime/launch.hpp", '+#include "base/error.hpp"\n',
         "scale.cu:1: kernel_includes: includes cuda/runtime/launch.hpp -> base/error.hpp"),
        ("src/cuda/runtime/launch.hpp", "+#include <spdlog/spdlog.h>\n", "launch.hpp -> spdlog/spdlog.h"),
    ],
    "unused_functions": [
        (KERNEL, "+__global__ void __launch_bounds__(4) alone(float* x) { x[0] = 1; }\n", "alone has no caller"),
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

    def test_what_a_module_exports_is_used_where_its_name_is_a_literal(self):
        files = dict(GOOD)
        files["src/cuda/module/module.cpp"] = COMMENT + 'extern "C" void entry_point() { go(); }\n'
        files[USER] += 'const char* kEntry = "entry_point";\n'
        self.assertEqual(self.findings(tidy.rules_names.unused_functions, files), [])

    def test_tests_of_the_cuda_room_may_copy_and_launch(self):
        files = dict(GOOD)
        files["src/cuda/launch/x_device_test.cpp"] = COMMENT + \
            'TEST(A, B) { cudaMemcpy(a, b, 1, k); launch_kernel(q, "x", s, k); }\n'
        for rule in (rules_cuda.launches, rules_cuda.launch_sites, rules_cuda.guarded_calls, rules_cuda.checked_status):
            self.assertEqual(self.findings(rule, files), [], rule.__name__)

    def test_sources_of_a_loop_over_names_are_listed(self):
        files = dict(GOOD)
        files["src/base/CMakeLists.txt"] += "foreach(unit IN ITEMS a b)\n  add(part_${unit}.cpp)\nendforeach()\n"
        files["src/base/part_a.cpp"] = files["src/base/part_b.cpp"] = COMMENT
        self.assertEqual(self.findings(rules_code.build_lists, files), [])
        files["src/base/part_c.cpp"] = COMMENT
        self.assertEqual(len(self.findings(rules_code.build_lists, files)), 1)

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

    def test_kernels(self):
        code = ("template <int n>\n__global__ void __launch_bounds__(kThreads, 2) k(float* x) { x[0] = n; }\n"
                "template <int n>\n__global__ void __launch_bounds__(kThreads, n <= 4 ? f(2) : 1)\n    m(float* x) { }\n"
                "__device__ __forceinline__ float half(float x) { return x / 2; }\n")
        self.assertEqual(self.names(code), ["k", "m", "half"])

    def test_calls_and_their_arguments(self):
        text = 'void f() { g(a, "x, y", h(1, 2), {3, 4}); g(); g<int>("z"); n.g(b); gg(1); }\n'
        found = cpp.calls(cpp.strip_comments(text), "g", cpp.without_comments(text))
        self.assertEqual([[text[b:e] for b, e in call.arguments] for call in found],
                         [["a", '"x, y"', "h(1, 2)", "{3, 4}"], [], ['"z"'], ["b"]])

    def test_extent_of_a_function(self):
        code = "int x;\nint f() {\n  return 1;\n}\nint g() { return 2; }\n"
        f, g = cpp.functions(code)
        self.assertEqual(code[f.head:f.end], "int f() {\n  return 1;\n}")
        self.assertEqual(code[g.head:g.end], "int g() { return 2; }")


if __name__ == "__main__":
    unittest.main()
