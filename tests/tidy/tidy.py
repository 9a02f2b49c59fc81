#!/usr/bin/env python3
"""The tidy test: the project's style as a program. Prints one line a finding and exits with 1 when there is any.

Usage: tidy.py [ROOT] [--rule NAME]... [--long]. ROOT is the project's root (default: two folders up). --long also lists
functions of more than 60 lines, which are allowed. The rules and their reasons: docs/contributing.md. tidy_self.py
proves that each rule can fail. Standard library only; a few seconds.
"""

import argparse
import os
import sys

import rules_code
import rules_cuda
import rules_files
import rules_names
from tree import Tree

RULES = [
    rules_files.file_size,
    rules_files.header_comment,
    rules_files.words,
    rules_files.line_ends,
    rules_code.include_direction,
    rules_code.banned_calls,
    rules_code.skipped_tests,
    rules_code.function_length,
    rules_code.build_lists,
    rules_cuda.launches,
    rules_cuda.launch_sites,
    rules_cuda.guarded_calls,
    rules_cuda.checked_status,
    rules_cuda.kernel_includes,
    rules_names.unused_functions,
    rules_names.document_names,
]


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the project's style.")
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--rule", action="append", choices=[rule.__name__ for rule in RULES], help="only this rule")
    parser.add_argument("--long", action="store_true", help="also list functions of more than 60 lines")
    options = parser.parse_args()
    tree = Tree(options.root)
    rules = [rule for rule in RULES if not options.rule or rule.__name__ in options.rule]
    findings = [finding for rule in rules for finding in rule(tree)]
    for finding in findings:
        print(finding)
    if options.long:
        for finding in rules_code.function_length(tree, rules_code.LONG_FUNCTION_LINES):
            print("note:", finding)
    print(f"tidy: {len(findings)} findings by {len(rules)} rules in {len(tree.paths)} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
