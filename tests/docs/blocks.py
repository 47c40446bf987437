"""blocks.py script PAGE: the page as a shell script: a block that begins with `# FILE` becomes that file, `sh` and `python` are executed.
blocks.py commands PAGE...: each command line of `cairn` on the pages, as `PAGE:LINE<TAB>words in JSON`, from blocks of sh and console and from
text between backquotes. A comment or a pipe ends it."""

import json
import re
import shlex
import sys

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


def script(page):
    text = open(page, encoding="utf-8").read()
    for kind, block in BLOCK.findall(text):
        name = re.match(r"# ([\w./-]+\.\w+)\b[^\n]*\n", block)
        if name and kind in ("yaml", "yml", "python"):
            path = name.group(1)
            print(f"mkdir -p \"$(dirname '{path}')\"\ncat >'{path}' <<'END-OF-BLOCK'\n{block}END-OF-BLOCK")
        elif kind == "python":
            print(f"python3 - <<'END-OF-BLOCK'\n{block}END-OF-BLOCK")
        elif kind == "sh":
            print(block, end="")


def words(line):
    """The commands of `cairn` on one line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    command, skip = [], False
    for word in [*lexer, ";"]:
        if set(word) <= set("();|&"):
            while command and re.fullmatch(r"\w+=.*", command[0]):
                command = command[1:]
            while command[:1] == ["sudo"]:
                command = command[1:]
            if command[:1] == ["cairn"]:
                yield command[1:]
            command = []
        elif set(word) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        else:
            command.append(word)


def commands(pages):
    for page in pages:
        text = open(page, encoding="utf-8").read()
        found = []
        for block in BLOCK.finditer(text):
            kind, body = block.group(1).split(" ")[0], block.group(2)
            first = text.count("\n", 0, block.start(2)) + 1
            if kind not in ("sh", "console"):
                continue
            body = body.replace("\\\n", "  ")
            for n, line in enumerate(body.split("\n")):
                if kind == "sh" or line.startswith("$ "):
                    found.append((first + n, line.removeprefix("$ ")))
        text = re.sub(r"<!--.*?-->", lambda c: "\n" * c.group(0).count("\n"), text, flags=re.S)
        outside = BLOCK.sub(lambda b: "\n" * b.group(0).count("\n"), text)
        for code in re.finditer(r"`(cairn [^`]+)`", outside):
            found.append((outside.count("\n", 0, code.start()) + 1, code.group(1).replace("\n", " ")))
        for n, line in found:
            try:
                for command in words(line):
                    print(f"{page}:{n}\t{json.dumps(command)}")
            except ValueError as e:
                sys.exit(f"{page}:{n}: {e}: {line}")


if sys.argv[1] == "script":
    script(sys.argv[2])
else:
    commands(sys.argv[2:])
