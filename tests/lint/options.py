"""options.py WANT_FILE OTHER_FILE...: the options (--long and -x) and commands that help names must be in each other text, and
no others. WANT_FILE: the help of every command, one after the other. An other file is a man page (roff) or a completion
script of bash, zsh or fish; only long options are compared there, since each shell writes short ones its own way."""

import re
import sys

LONG = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
FISH = re.compile(r"\s-l\s+'?([a-z][a-z0-9-]*)")


def long_options(text):
    plain = re.sub(r"\\f[BIRP]", "", text).replace(r"\-", "-")
    found = set(LONG.findall(plain))
    if re.search(r"^complete\s.*-c\s", text, re.M):
        # In fish, --long words belong to `complete` itself; what it completes stands after -l.
        found = set(FISH.findall(text))
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        want = long_options(f.read())
    if not want:
        print(f"{sys.argv[1]}: help names no option")
        return 1
    bad = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as f:
            got = long_options(f.read())
        for name in sorted(want - got):
            print(f"{path}: --{name} is in help, but not here")
        for name in sorted(got - want):
            print(f"{path}: --{name} is here, but not in help")
        bad += want != got
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
