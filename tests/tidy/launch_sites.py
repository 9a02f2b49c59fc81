#!/usr/bin/env python3
"""Writes src/cuda/launch_sites.txt, the table of every launch, copy, replay and library call of the CUDA room.

Usage: launch_sites.py [--write] [ROOT]. Without --write it prints the table. Run it after adding, renaming or merging
sites; what is wrong with a site itself is told by tidy.py --rule launch_sites. Standard library only.
"""

import argparse
import os
import sys

import rules_cuda
from tree import Tree


def main() -> int:
    parser = argparse.ArgumentParser(description="The table of the CUDA room's sites.")
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--write", action="store_true", help=f"write it to {rules_cuda.SITES_FILE}")
    options = parser.parse_args()
    sites = rules_cuda.Sites(Tree(options.root))
    for finding in sites.findings:
        print(finding, file=sys.stderr)
    text = rules_cuda.table(sites.found)
    if options.write:
        with open(os.path.join(options.root, rules_cuda.SITES_FILE), "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")
    return 1 if sites.findings else 0


if __name__ == "__main__":
    sys.exit(main())
