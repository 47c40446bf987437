"""lint.py [--root DIR] RULE... : says what is wrong, exit 1 when anything is. Without a rule: all of them.
lint.py --list names the rules; --report adds how long functions and files are.
lint.py --ask answers lines "DIR<tab>RULE" of standard input, each with what is wrong and a line "= STATUS": rules.t asks
hundreds of times, and Python takes longer to start than most rules to look. Without DIR it is this tree, read once."""

import argparse
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import rules  # noqa: E402
from tree import Tree  # noqa: E402


HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def check(tree, names):
    """Prints what is wrong; the exit status."""
    if not tree.files:
        print(f"{tree.root}: no files")
        return 2
    problems = 0
    for name in names:
        if name not in rules.RULES:
            print(f"no rule {name}")
            return 2
        for problem in rules.RULES[name](tree):
            print(problem)
            problems += 1
    return 1 if problems else 0


def answer():
    with os.fdopen(os.dup(0), encoding="utf-8") as lines, open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)  # the lines aren't for the programs that rules start
        here = None
        for line in lines:
            root, name = line.rstrip("\n").split("\t")
            try:
                if not root:
                    here = here or Tree(HERE)
                status = check(Tree(root) if root else here, [name])
            except Exception:  # a rule that breaks is no answer, and the next one is asked all the same
                print(traceback.format_exc())
                status = 3
            print(f"= {status}", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--root", default=HERE)
    args.add_argument("--list", action="store_true")
    args.add_argument("--report", action="store_true")
    args.add_argument("--ask", action="store_true")
    args.add_argument("rule", nargs="*")
    args = args.parse_args()

    if args.list:
        for name, function in rules.RULES.items():
            print(name, function.__doc__.split("\n")[0], sep="\t")
        return 0
    if args.ask:
        answer()
        return 0
    tree = Tree(args.root)
    status = check(tree, args.rule or rules.RULES)
    if args.report and status != 2:
        for line in rules.report_lengths(tree):
            print(line)
    return status


if __name__ == "__main__":
    sys.exit(main())
