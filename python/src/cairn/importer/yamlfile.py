"""YAML of other tools, with the line of each key. Their files are read with PyYAML, an optional
dependency; pipelines of Cairn are read by Cairn alone."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from .model import ImportFailed


class Map(Dict[str, Any]):
    """A mapping that knows where its keys stand."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: Dict[str, int] = {}

    def at(self, key: str) -> int:
        return self.lines.get(key, self.line)


class Seq(List[Any]):
    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: List[int] = []


# YAML 1.1 reads 1e-3 as text, and the tools whose files these are don't.
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")


def documents(path: str, text: Optional[str] = None) -> List[Any]:
    try:
        import yaml
    except ImportError:
        raise ImportFailed(
            "reading YAML of other tools needs PyYAML",
            "python3 -m pip install 'cairn-engine[import]', or Debian's python3-yaml",
        ) from None
    if text is None:
        try:
            with open(path, encoding="utf-8") as f:
                text = f.read()
        except (OSError, UnicodeDecodeError) as e:
            raise ImportFailed(f"can't read {path}: {e}") from None
    loader = yaml.SafeLoader(text)

    def build(node: Any) -> Any:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            loader.flatten_mapping(node)
            found = Map(line)
            for key, value in node.value:
                name = str(loader.construct_object(key, deep=True))
                found.lines[name] = key.start_mark.line + 1
                found[name] = build(value)
            return found
        if isinstance(node, yaml.SequenceNode):
            items = Seq(line)
            for item in node.value:
                items.lines.append(item.start_mark.line + 1)
                items.append(build(item))
            return items
        if node.tag == "tag:yaml.org,2002:str" and node.style is None:
            if _FLOAT.fullmatch(node.value):
                return float(node.value)
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        return loader.construct_object(node, deep=True)

    try:
        out = []
        while loader.check_node():
            out.append(build(loader.get_node()))
        return out
    except (yaml.YAMLError, RecursionError) as e:
        mark = getattr(e, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else path
        problem = getattr(e, "problem", None) or e
        raise ImportFailed(f"{place}: this isn't YAML: {problem}") from None
