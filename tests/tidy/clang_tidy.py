#!/usr/bin/env python3
"""Runs clang-tidy (configuration: .clang-tidy) over the product's sources, in parallel; fails on any finding.

Usage: clang_tidy.py BUILD_DIR [FILE...]. The sources are those of BUILD_DIR/compile_commands.json under src/ without
tests, fuzz targets and benchmarks; FILEs, if any, choose among them. Headers are checked through the sources that
include them. MINFER_TIDY_JOBS sets the number of processes (default: all processors). Standard library only.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

from tree import is_test

TOOL = os.environ.get("MINFER_CLANG_TIDY", "clang-tidy-19")


def sources(build: str, root: str, chosen: list[str]) -> list[str]:
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        files = {os.path.relpath(entry["file"], root) for entry in json.load(file)}
    # The compiler of kernel sources has options of its own, which clang does not know.
    files = {f for f in files if f.startswith("src/") and not f.endswith(".cu") and not is_test(f)}
    return sorted(files & {os.path.relpath(c, root) for c in chosen} if chosen else files)


def check(build: str, root: str, path: str) -> tuple[str, float, int, str]:
    start = time.monotonic()
    result = subprocess.run([TOOL, "-p", build, "--quiet", path], cwd=root, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    # stderr counts suppressed warnings of system headers; it matters only when the tool itself failed.
    text = result.stdout if result.stdout.strip() or result.returncode == 0 else result.stderr
    return path, time.monotonic() - start, result.returncode, text


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    build = os.path.abspath(sys.argv[1])
    files = sources(build, root, sys.argv[2:])
    # Large files first, so that no process is left alone with one at the end.
    files.sort(key=lambda path: -os.path.getsize(os.path.join(root, path)))
    jobs = int(os.environ.get("MINFER_TIDY_JOBS", os.cpu_count() or 1))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for path, seconds, code, text in pool.map(lambda path: check(build, root, path), files):
            print(f"{seconds:5.1f} s  {path}{'  FAILED' if code else ''}", flush=True)
            if code:
                failed += 1
                print(text)
    print(f"clang-tidy: {failed} of {len(files)} files have findings")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
