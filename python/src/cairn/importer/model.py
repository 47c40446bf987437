"""What an importer makes: a pipeline in our words, and notes on what it couldn't say."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional


class Note(NamedTuple):
    """Something of the original that the pipeline doesn't say, or says otherwise."""

    file: str
    line: Optional[int]
    what: str
    todo: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.what}: {self.todo}"


class ImportFailed(Exception):
    """There is nothing to import: the file can't be read as what it should be."""

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Names:
    """Names that the pipeline file takes, each given once."""

    def __init__(self) -> None:
        self._given: Dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, original: str, key: Optional[str] = None) -> str:
        """The name for this original; the same each time that it is asked with this key."""
        key = key or original
        if key not in self._given:
            self._given[key] = self.new(original)
        return self._given[key]

    def new(self, original: str) -> str:
        base = re.sub(r"[^a-z0-9_-]+", "-", original.lower()).strip("-_") or "step"
        if not base[0].isalpha():
            base = f"s-{base}"
        base = re.sub(r"-+", "-", base)[:36].rstrip("-")
        name, n = base, 1
        while name in self._used:
            n += 1
            name = f"{base}-{n}"
        self._used.add(name)
        return name


def ident(path: str, taken: Iterable[str] = ()) -> str:
    """A name for an input or output, from its path."""
    base = re.sub(r"[^A-Za-z0-9]+", "_", path.strip("/").lower()).strip("_") or "data"
    if not base[0].isalpha():
        base = f"f_{base}"
    name, n = base[:60], 1
    while name in taken:
        n += 1
        name = f"{base[:56]}_{n}"
    return name


class Pipeline:
    """`steps` and `finally_` hold mappings as they are written, without what is None."""

    def __init__(self, name: str, source: str) -> None:
        short = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "imported"
        self.name = (short if short[0].isalpha() else f"p-{short}")[:40].rstrip("-")
        self.source = source
        self.description: Optional[str] = None
        self.params: Dict[str, Any] = {}
        self.inputs: Dict[str, Any] = {}
        self.steps: Dict[str, Dict[str, Any]] = {}
        self.finally_: Dict[str, Dict[str, Any]] = {}
        self.schedules: Dict[str, Any] = {}
        self.notes: List[Note] = []

    def note(self, line: Optional[int], what: str, todo: str, file: Optional[str] = None) -> None:
        note = Note(file or self.source, line, what, todo)
        if note not in self.notes:
            self.notes.append(note)

    def text(self) -> str:
        whole: Dict[str, Any] = {
            "pipeline": self.name,
            "description": self.description,
            "params": self.params,
            "inputs": self.inputs,
            "steps": self.steps,
            "finally": self.finally_,
            "schedules": self.schedules,
        }
        lines = [f"# Made by `cairn import` from {self.source}."]
        for key, value in whole.items():
            if value or key == "pipeline":
                lines += _lines(key, value, 0, key in ("steps", "finally"))
        return "\n".join(lines) + "\n"


_PLAIN = re.compile(r"(?:[A-Za-z_/]|\./|\.[A-Za-z_])[A-Za-z0-9_./ @%+-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"}


def scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS and value[-1] != " "
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    text = scalar(value)
    # In [] and {} a plain text ends at a comma or a bracket; scalar() has quoted those.
    return text


def _is_block(text: str) -> bool:
    lines = text.split("\n")
    return (
        len(lines) > 1
        and not lines[0].startswith((" ", "\t"))
        and lines[0] != ""
        and not any(c < " " and c not in "\n\t" for c in text)
    )


def _lines(key: str, value: Any, depth: int, steps: bool = False) -> List[str]:
    indent = "  " * depth
    key = scalar(key)
    in_block = depth == 0 or (depth == 1 and steps)
    if isinstance(value, dict) and (in_block or len(f"{indent}{key}: {_flow(value)}") > 100):
        if not value:
            return [f"{indent}{key}: {{}}"]
        out = [f"{indent}{key}:"]
        for k, v in value.items():
            if v is not None:
                out += _lines(str(k), v, depth + 1, steps)
        return out
    if isinstance(value, (list, tuple)) and len(f"{indent}{key}: {_flow(value)}") > 100:
        return [f"{indent}{key}:", *(f"{indent}  - {_flow(v)}" for v in value)]
    if isinstance(value, str) and _is_block(value):
        tail = "" if value.endswith("\n") else "-"
        body = [
            f"{indent}  {line}".rstrip(" ") if not line.strip() else f"{indent}  {line}"
            for line in value.rstrip("\n").split("\n")
        ]
        return [f"{indent}{key}: |{tail}", *body]
    return [f"{indent}{key}: {_flow(value)}"]


# Shell text.


class Quotes:
    """Where a shell's text stands: inside of single quotes, or not."""

    def __init__(self) -> None:
        self.single = self.double = False

    def read(self, text: str) -> None:
        i = 0
        while i < len(text):
            c = text[i]
            if c == "\\" and not self.single:
                i += 1
            elif c == "'" and not self.double:
                self.single = not self.single
            elif c == '"' and not self.single:
                self.double = not self.double
            elif c == "#" and not self.single and not self.double and text[i - 1 : i] in ("\n", ""):
                i = text.find("\n", i) if "\n" in text[i:] else len(text)
            i += 1


def literal(text: str) -> str:
    """Text that isn't ours, where `${{` would begin an expression."""
    return text.replace("${{", "$${{")


def in_heredoc(text: str) -> str:
    """Text of a here-document in which variables are replaced, so that it stays what it is."""
    for c in "\\$`":
        text = text.replace(c, "\\" + c)
    return text


def place(of: str, path: str) -> str:
    """A line that puts an input where a program looks for it. Words with a variable in them are no
    paths to Cairn, which would take a file of that name in the project as code."""
    folder = path.rstrip("/").rpartition("/")[0]
    make = f'mkdir -p "$PWD/{folder}"\n' if folder else ""
    return f'{make}ln -sfn "$PWD/"{of} "$PWD/{path.rstrip("/")}"'


# Writes a file's text as a value: in quotes, or as number, JSON or text, as it looks.
TEXT_OF = r"""text_of() {
  printf '"%s"' "$(sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' -e '$!s/$/\\n/' "$1" |
    tr -d '\n')"
}"""
VALUE_OF = r"""value_of() {
  case $(cat "$1") in
    '['*|'{'*|true|false|0) cat "$1" ;;
    ''|*[!0-9]*|0*) text_of "$1" ;;
    *) cat "$1" ;;
  esac
}"""


def write_values(of: Dict[str, str], texts: Iterable[str] = (), to: str = "values.json") -> str:
    """Lines that write a `values` file, from a file for each name; `texts` are always texts."""
    texts = set(texts)
    out = [TEXT_OF, *([VALUE_OF] if set(of) - texts else []), "{"]
    for i, (name, path) in enumerate(sorted(of.items())):
        head = ("," if i else "{") + json.dumps(name) + ":"
        out.append(f"  printf %s '{head}'; {'text' if name in texts else 'value'}_of \"{path}\"")
    return "\n".join([*out, "  echo '}'", f"}} >{to}"])
