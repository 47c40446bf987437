"""lines.py TABLE TREE OUT: the command lines of the documents, as scripts that execute them.

TABLE (lines.txt) has a section for each page: what is there before its first line, what a line needs, what stands for an address or a name of
the page, and which lines aren't executed, with the reason. For each section there are OUT/N.sh, the script, and OUT/N.name, the page. OUT/report
has a line for each command line: run, elsewhere or not, the place, and why.

It is an error if a line of the table fits no line of its page, and if a page with command lines has no section.
"""

import os
import re
import shlex
import sys

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
ASK = re.compile(r"^(setup|put|before|as|code|not|elsewhere)\b ?(.*)$")


def lines_of(text):
    """Of each block of sh and console: (its first line's number, [(number, line)]). A line goes on after a backslash."""
    for block in BLOCK.finditer(text):
        kind, body = block.group(1).split(" ")[0], block.group(2)
        first = text.count("\n", 0, block.start(2)) + 1
        if kind not in ("sh", "console"):
            continue
        lines, start, whole = [], 0, ""
        for n, line in enumerate(body.split("\n")):
            if not whole:
                start = first + n
                if kind == "console":
                    if not line.startswith("$ "):
                        continue
                    line = line[2:]
            whole += line
            if whole.endswith("\\"):
                whole += "\n"
                continue
            if whole.split("#")[0].strip():
                lines.append((start, whole))
            whole = ""
        yield lines


def bare(line):
    """Without the comment at its end."""
    return re.sub(r"\s+# .*$", "", line).strip()


class Section:
    """What the table says of one page."""

    def __init__(self, page):
        self.page, self.setup, self.put, self.rules, self.used = page, "", [], [], set()

    def of(self, verb, line):
        """What the table says of a line, by its text or by its beginning and ` …`."""
        for i, (v, what, body) in enumerate(self.rules):
            if v == verb and (bare(line) == what or what.endswith(" …") and bare(line).startswith(what[:-2])):
                self.used.add(i)
                return body
        return None


def read_table(path):
    sections, body = [], None
    for n, line in enumerate(open(path, encoding="utf-8"), start=1):
        if line.startswith("== "):
            sections.append(Section(line[3:].strip()))
        elif line.startswith("\t") and body is not None:
            body.append(line[1:])
        elif line.strip() and not line.startswith("#"):
            m = ASK.match(line.rstrip("\n"))
            if not m:
                sys.exit(f"{path}:{n}: not understood: {line}")
            verb, what = m.groups()
            section, body = sections[-1], []
            if verb == "put":
                section.put.append(what.split(" = "))
            elif verb == "setup":
                section.setup = body
            elif verb == "code":
                number, what = what.split(" ", 1)
                section.rules.append((verb, what, [number]))
            else:
                section.rules.append((verb, what, body))
    return sections


def script(section, text, report):
    out = ["".join(section.setup)]
    for block in lines_of(text):
        first = bare(block[0][1]) if block else ""
        gone = section.of("elsewhere", first) or section.of("elsewhere", "all")
        for number, line in block:
            place = f"{section.page}:{number}"
            if gone is not None:
                report.append(("elsewhere", place, "".join(gone).strip()))
                continue
            why = section.of("not", line)
            if why is not None:
                if not "".join(why).strip():
                    sys.exit(f"{place}: not executed, and no reason: {line}")
                report.append(("not", place, "".join(why).strip()))
                continue
            before = section.of("before", line)
            if before:
                out.append("".join(before))
            instead = section.of("as", line)
            text_of = "".join(instead).rstrip("\n") if instead is not None else line
            for old, new in section.put:
                text_of = text_of.replace(old, new)
            code = section.of("code", line)
            out.append(f"line {shlex.quote(place)} {code[0] if code else 0} {shlex.quote(text_of)}\n")
            report.append(("run", place, ""))
    return "".join(out)


def main():
    table, tree, to = sys.argv[1:]
    sections = read_table(table)
    report, bad = [], []
    pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
    for where, _, names in os.walk(os.path.join(tree, "docs")):
        pages += [os.path.relpath(os.path.join(where, n), tree) for n in sorted(names) if n.endswith(".md")]
    os.makedirs(to, exist_ok=True)
    for n, section in enumerate(sections):
        text = open(os.path.join(tree, section.page), encoding="utf-8").read()
        made = script(section, text, report)
        if "line " in made:
            for name, what in (("sh", made), ("name", section.page)):
                with open(os.path.join(to, f"{n}.{name}"), "w", encoding="utf-8") as f:
                    f.write(what)
        bad += [f"{table}: {section.page} has no line `{what}` ({verb})" for i, (verb, what, _) in enumerate(section.rules) if i not in section.used]
    known = {s.page for s in sections}
    for page in pages:
        text = open(os.path.join(tree, page), encoding="utf-8").read()
        if page not in known and any(lines_of(text)):
            bad.append(f"{page} has command lines, and {table} doesn't say how to execute them")
    with open(os.path.join(to, "report"), "w", encoding="utf-8") as f:
        f.writelines("\t".join(r) + "\n" for r in report)
    if bad:
        sys.exit("\n".join(bad))


main()
