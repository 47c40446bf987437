"""Errors: what the command said, as exceptions."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Type


class CairnError(Exception):
    """A command failed. `hint` says what to do next, where the command knows it.

    `errors` are the findings of the command (docs/json.md, Finding): each has message, file, line,
    column and hint. `exit_code` is that of the command.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: Optional[str] = None,
        exit_code: Optional[int] = None,
        errors: Optional[List[Dict[str, Any]]] = None,
        answer: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.errors = errors or []
        self.answer = answer

    def __str__(self) -> str:
        if self.hint and self.hint not in self.message:
            return f"{self.message}\n{self.hint}"
        return self.message


class TaskFailed(CairnError):
    """A task of the run failed. `answer` is what the command knows of the run."""


class UsageError(CairnError):
    """The command was used wrongly, or what it was asked for doesn't exist."""


class InvalidPipeline(CairnError):
    """The pipeline or cairn.yaml is invalid. `errors` has each place."""


class EnvironmentFailed(CairnError):
    """Store, cluster or disk failed."""


class Interrupted(CairnError):
    """The command was stopped."""


class BinaryNotFound(CairnError):
    """There is no program `cairn`."""


class NotInStep(CairnError):
    """Asked for what only the program of a step has."""


_BY_EXIT: Dict[int, Type[CairnError]] = {
    1: TaskFailed,
    2: UsageError,
    3: InvalidPipeline,
    4: EnvironmentFailed,
    130: Interrupted,
}


def of_exit(code: int) -> Type[CairnError]:
    return _BY_EXIT.get(code, CairnError)
