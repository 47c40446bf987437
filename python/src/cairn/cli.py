"""The program `cairn`: where it is, and its answers in JSON.

Everything outside of steps goes through answer(): this package knows the shapes of docs/json.md,
and neither the database nor the store.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import Any, Dict, List, Optional, Sequence

from .errors import BinaryNotFound, CairnError, of_exit

Answer = Dict[str, Any]


def _is_program(path: str) -> bool:
    """A script of Python's with this name would start us, which would start it."""
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def binary() -> str:
    """The path of `cairn`: $CAIRN_BINARY, the one that the package brought, or that on PATH."""
    named = os.environ.get("CAIRN_BINARY")
    if named:
        return named
    schemes = [sysconfig.get_path("scripts")]
    try:
        schemes.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    except KeyError:
        pass
    for folder in [*schemes, os.path.dirname(sys.executable)]:
        path = os.path.join(folder, "cairn")
        if _is_program(path):
            return path
    on_path = shutil.which("cairn")
    if on_path:
        return on_path
    raise BinaryNotFound(
        "there is no program `cairn`",
        hint="install it, put its directory into PATH, or name it in CAIRN_BINARY",
    )


def _findings(stderr: str) -> Answer:
    for line in reversed(stderr.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("schema") == "cairn.error/1":
            return found
    return {}


def _fail(code: int, stderr: str, answer: Optional[Answer]) -> CairnError:
    errors: List[Dict[str, Any]] = _findings(stderr).get("errors", [])
    if errors:
        first = errors[0]
        place = ":".join(str(first[k]) for k in ("file", "line", "column") if first.get(k))
        said = str(first["message"]).rstrip()
        message = f"{place}: {said}" if place else said
        if len(errors) > 1:
            message += f" (and {len(errors) - 1} more: see .errors)"
        hint = first.get("hint")
    elif answer and answer.get("message"):
        message, hint = str(answer["message"]), None
    else:
        message, hint = stderr.strip() or f"`cairn` ended with exit code {code}", None
    return of_exit(code)(message, hint=hint, exit_code=code, errors=errors, answer=answer)


def answer(
    args: Sequence[str], *, cwd: Optional[str] = None, allowed: Sequence[int] = (0,)
) -> Answer:
    """What `cairn ARGS --json` answers. Another exit code than those allowed is an exception."""
    done = subprocess.run(
        [binary(), *args, "--json"],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
    )
    try:
        found: Optional[Answer] = json.loads(done.stdout) if done.stdout.strip() else None
    except ValueError:
        raise CairnError(
            f"`cairn {args[0]}` answered something other than JSON",
            hint="is it another program of this name? CAIRN_BINARY names the right one",
        ) from None
    if done.returncode not in allowed:
        raise _fail(done.returncode, done.stderr, found)
    return found or {}


def text(args: Sequence[str], *, cwd: Optional[str] = None) -> str:
    """What a command prints that has no JSON, such as a drawing."""
    done = subprocess.run(
        [binary(), *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode != 0:
        raise _fail(done.returncode, done.stderr, None)
    return done.stdout
