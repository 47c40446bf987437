"""The source tree as the rules see it: files, rooms, and C text without comments and strings."""

import functools
import os
import re
import subprocess

CODE = (".c", ".h")
TEXT = (".c", ".h", ".sh", ".t", ".py", ".pl", ".cmake", ".txt", ".md", ".yaml", ".yml", ".json", ".bash")

NOT_SOURCE = re.compile(r"build.*|\.cairn|\.cache|__pycache__")  # where there is no git to ask


class Tree:
    def __init__(self, root):
        self.root = os.path.abspath(root)
        self._text, self._lines = {}, {}
        self.files = self._git_files() or self._walk()

    def _git_files(self):
        """Tracked files and new ones that aren't ignored; None outside of a git checkout's root."""
        if not os.path.exists(os.path.join(self.root, ".git")):
            return None
        out = subprocess.run(["git", "-c", "safe.directory=*", "-C", self.root, "ls-files", "-z", "-c", "-o", "--exclude-standard"],
                             stdout=subprocess.PIPE, check=True).stdout.decode("utf-8", "surrogateescape")
        return sorted(f for f in set(out.split("\0")) if f and os.path.lexists(os.path.join(self.root, f)))

    def _walk(self):
        found = []
        for where, dirs, names in os.walk(self.root):
            dirs[:] = sorted(d for d in dirs if not NOT_SOURCE.fullmatch(d))
            found += [os.path.relpath(os.path.join(where, n), self.root) for n in sorted(names)]
        return found

    def path(self, name):
        return os.path.join(self.root, name)

    def bytes(self, name):
        path = self.path(name)
        if os.path.islink(path):
            return b""
        with open(path, "rb") as f:
            return f.read()

    def text(self, name):
        if name not in self._text:
            self._text[name] = self.bytes(name).decode("utf-8", "replace")
        return self._text[name]

    def lines(self, name):
        if name not in self._lines:
            self._lines[name] = self.text(name).split("\n")
        return self._lines[name]

    def code(self, *under):
        """C sources and headers, all or those below the given folders."""
        return [f for f in self.files if f.endswith(CODE) and (not under or f.startswith(tuple(u + "/" for u in under)))]

    def shebang(self, name):
        head = self.bytes(name)[:80]
        return head.split(b"\n")[0].decode("ascii", "replace") if head.startswith(b"#!") else ""

    def shell(self):
        return [f for f in self.files
                if f.endswith((".sh", ".t", ".bash")) or re.match(r"#!.*/(ba)?sh\b", self.shebang(f) or "")]

    def readable(self, name):
        """Text that people write: not data, corpora or golden files."""
        return (name.endswith(TEXT) or "." not in os.path.basename(name)) and not re.search(r"(^|/)(corpus|golden|data|texts)/", name) \
            and b"\0" not in self.bytes(name)[:4096]


SKIP = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def blank(match):
    """Comments and strings become spaces, so that lines and columns stay."""
    return re.sub(r"[^\n]", " ", match.group())


@functools.cache
def bare(text):
    return SKIP.sub(blank, text)


def functions(text):
    """(line, name, length) of each function: in this layout its braces stand alone in the first column."""
    found, start, name = [], None, ""
    head, n = "", 0
    for n, line in enumerate(bare(text).split("\n"), start=1):
        if start is None:
            if line.rstrip() == "{" and "(" in head:
                words = re.findall(r"(\w+)\s*\(", head)
                start, name = n, words[0] if words else "?"
            elif line.strip() == "" or line[:1] in "#}" or line.rstrip().endswith(";"):
                head = ""
            else:
                head = head + line if line[:1] in " \t" else line
        elif line.startswith("}"):
            found.append((start, name, n - start + 1))
            start, head = None, ""
    if start is not None:
        found.append((start, name, n - start + 1))  # never closed, as far as we can see
    return found
