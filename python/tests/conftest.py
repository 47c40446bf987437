"""A project of its own for each test, and the program under test."""

import os
import sys
from pathlib import Path
from typing import Callable

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

SRC = Path(__file__).parents[1] / "src"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    program = os.environ.get("CAIRN")
    if program:
        monkeypatch.setenv("CAIRN_BINARY", os.path.realpath(program))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """project(pipeline, **files): a directory with these files, which becomes the current one."""
    if "CAIRN" not in os.environ:
        pytest.skip("CAIRN names no program")

    def make(pipeline: str, **files: str) -> Path:
        (tmp_path / "cairn.yaml").write_text("# project\n")
        (tmp_path / "pipeline.yaml").write_text(pipeline)
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_py", ".py").replace("_csv", ".csv")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return make
