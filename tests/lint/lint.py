"""lint.py [--root DIR] RULE... : says what is wrong, exit 1 when anything is. Without a rule: all of them.
lint.py --list names the rules; --report adds how long functions and files are."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import rules  # noqa: E402
from tree import Tree  # noqa: E402


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    args.add_argument("--list", action="store_true")
    args.add_argument("--report", action="store_true")
    args.add_argument("rule", nargs="*")
    args = args.parse_args()

    if args.list:
        for name, function in rules.RULES.items():
            print(name, function.__doc__.split("\n")[0], sep="\t")
        return 0
    tree = Tree(args.root)
    if not tree.files:
        print(f"{args.root}: no files")
        return 2
    problems = 0
    for name in args.rule or rules.RULES:
        if name not in rules.RULES:
            print(f"no rule {name}")
            return 2
        for problem in rules.RULES[name](tree):
            print(problem)
            problems += 1
    if args.report:
        for line in rules.report_lengths(tree):
            print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
