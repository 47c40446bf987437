"""Inside a step: params, inputs, outputs, metrics.

A step's program gets what it declares in its environment: `params` as JSON in CAIRN_PARAMS, the
places of inputs and outputs in CAIRN_INPUT_NAME and CAIRN_OUTPUT_NAME, the files of `metrics` and
`series`, the directory of its `checkpoint`. All of it is in the step's key.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from .errors import NotInStep

# Paths are relative to the directory in which a step begins, and a program may leave it.
_BEGAN_IN = os.getcwd()


class Params(Mapping[str, Any]):
    """Params by name: `p["lr"]`, `p.lr`, of a group `p.model.depth`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values: Dict[str, Any] = {}
        for name, value in values.items():
            group = self._values
            *path, last = name.split(".")
            for part in path:
                group = group.setdefault(part, {})
            group[last] = value

    def __getitem__(self, name: str) -> Any:
        found: Any = self._values
        for part in name.split("."):
            if not isinstance(found, dict) or part not in found:
                raise KeyError(name)
            found = found[part]
        return found

    def __getattr__(self, name: str) -> Any:
        values: Dict[str, Any] = self.__dict__.get("_values", {})
        for form in (name, name.replace("_", "-")):
            if form in values:
                found = values[form]
                return Params(found) if isinstance(found, dict) else found
        known = ", ".join(sorted(values)) or "none"
        raise AttributeError(
            f"this step has no param `{name}` (it has: {known}): name it in its `params`"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Params({self._values!r})"


def params(**defaults: Any) -> Params:
    """The params that the step names in its `params`.

    Outside of a step, and for names that it doesn't have, the values are those of `defaults`: so a
    script also runs by hand.
    """
    text = os.environ.get("CAIRN_PARAMS")
    if text is None and not defaults:
        raise NotInStep(
            "there are no params",
            hint="the step lists them: `params: [lr, epochs]`; "
            "by hand, give defaults: cairn.params(lr=0.1)",
        )
    values = dict(defaults)
    values.update(json.loads(text) if text is not None else {})
    return Params(values)


class Paths(Mapping[str, Path]):
    """The places of a step's inputs, or outputs, by name: `inputs["data"]`, `inputs.data`."""

    def __init__(self, prefix: str, what: str) -> None:
        self._prefix, self._what = prefix, what

    def _variable(self, name: str) -> str:
        return self._prefix + name.upper().replace("-", "_")

    def __getitem__(self, name: str) -> Path:
        value = os.environ.get(self._variable(name))
        if value is None:
            known = ", ".join(sorted(self)) or "none"
            raise NotInStep(
                f"this step has no {self._what} `{name}` (it has: {known})",
                hint=f"it is declared in the step's `{self._what}s`",
            )
        return Path(_BEGAN_IN, value)

    def __getattr__(self, name: str) -> Path:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._variable(name) in os.environ

    def __iter__(self) -> Iterator[str]:
        n = len(self._prefix)
        return (k[n:].lower() for k in sorted(os.environ) if k.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{self._what}s: {', '.join(self) or 'none'}"


inputs = Paths("CAIRN_INPUT_", "input")
outputs = Paths("CAIRN_OUTPUT_", "output")


def checkpoint() -> Optional[Path]:
    """The directory that the step keeps between its attempts; None without `checkpoint`."""
    value = os.environ.get("CAIRN_CHECKPOINT")
    return Path(_BEGAN_IN, value) if value else None


def in_step() -> bool:
    return "CAIRN_ATTEMPT" in os.environ or "CAIRN_METRICS" in os.environ or bool(len(outputs))


def _number(name: str, value: Any) -> Union[int, float, None]:
    """JSON has no NaN and no infinity: a curve has a gap there."""
    if isinstance(value, bool) or isinstance(value, str) or value is None:
        raise TypeError(f"metric `{name}` must be a number, not {value!r}")
    if not isinstance(value, (int, float)):  # of numpy, of torch
        value = value.item() if hasattr(value, "item") else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value  # type: ignore[no-any-return]


def log_metrics(
    metrics: Optional[Mapping[str, Any]] = None, *, step: Optional[float] = None, **more: Any
) -> None:
    """Records metrics of this step.

    With `step` they are a point of its curves: a line of the step's `series` file. Without, they
    are results, which go into its `metrics` file. By hand, outside of a step, they are printed.
    """
    values = {k: _number(k, v) for k, v in {**(metrics or {}), **more}.items()}
    if not values:
        return
    if step is not None:
        _add_point({"step": _number("step", step), **values})
    else:
        _add_results(values)


def _say(values: Mapping[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def _add_point(point: Dict[str, Any]) -> None:
    path = os.environ.get("CAIRN_OUTPUT_SERIES")
    if path is None or "CAIRN_GANG" in os.environ:  # ranks print, and what started them records
        _say(point)
        return
    if path.endswith(".csv") or os.path.isdir(os.path.join(_BEGAN_IN, path)):
        raise NotInStep(
            f"log_metrics() writes JSON lines, and this step's series is {path}",
            hint="say `series: log.jsonl` in the step",
        )
    with open(os.path.join(_BEGAN_IN, path), "a", encoding="utf-8") as f:
        f.write(json.dumps(point) + "\n")  # one write: a reader sees whole lines


def _add_results(values: Dict[str, Any]) -> None:
    path = os.environ.get("CAIRN_METRICS")
    if path is None:
        if in_step():
            print(
                "cairn: log_metrics() has no file to write to: "
                "say `metrics: metrics.json` in the step",
                file=sys.stderr,
            )
        _say(values)
        return
    path = os.path.join(_BEGAN_IN, path)
    known: Dict[str, Any] = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            known = json.loads(f.read() or "{}")
    known.update(values)
    # Written where it is: a step whose inputs are read-only links can't rename onto it.
    with open(path, "w", encoding="utf-8") as f:
        json.dump(known, f)
        f.write("\n")
