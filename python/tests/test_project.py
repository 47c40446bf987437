"""Outside of steps: runs, artifacts, graphs and errors of real projects."""

import json
import os
import subprocess
import sys

import pytest
from conftest import SRC

import cairn
from cairn import cli
from cairn.project import _param_options

PIPELINE = """
pipeline: demo
params: {n: 1, words: [a], text: x, model: {lr: 0.1}}
steps:
  make:
    run: |
      mkdir -p d; printf '{"n": %s}' ${{ params.n }} >d/v.json; printf 'a,b\\n1,2\\n' >d/t.csv
      echo ${{ params.text }} ${{ params.words }} ${{ params.model.lr }} >note.txt
      printf '{"score": %s}' ${{ params.n }} >m.json
    outputs: {d: d/, note: note.txt}
    metrics: m.json
"""


def test_runs_and_their_table(project):
    project(PIPELINE)
    first = cairn.run()
    second = cairn.run(params={"n": 2, "words": ["it's", "1"], "model": {"lr": 0.5}, "text": "é x"})
    runs = cairn.Project().runs()
    assert [r.id for r in runs] == [second.id, first.id] and len(runs[1:]) == 1
    assert second.params["words"] == ["it's", "1"] and second.params["model.lr"] == 0.5
    assert second.hash and len(second.hash) == 64
    assert runs.rows()[0]["metrics.make.score"] == 2 and runs.rows()[1]["params.n"] == 1
    assert [r.id for r in cairn.Project().runs(metric="score>1.5")] == [second.id]
    assert [r.id for r in cairn.Project().runs(param=["n=1"], sort="-score")] == [first.id]
    html = runs._repr_html_()
    assert "metrics.make.score" in html and second.id in html
    assert "<th style='text-align:left'>make score</th><td>2</td>" in second._repr_html_()
    assert cairn.Project().get_run("last").id == second.id
    assert {t["task"] for t in second.tasks()} == {"make"}


def test_html_is_escaped(project):
    project(PIPELINE)
    run = cairn.run(params={"text": "<script>alert(1)</script>"})
    for html in (run._repr_html_(), cairn.Project().runs()._repr_html_()):
        assert "<script>" not in html and "&lt;script&gt;" in html


def test_to_pandas(project):
    pandas = pytest.importorskip("pandas")
    project(PIPELINE)
    run = cairn.run()
    frame = cairn.Project().runs().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc[run.id, "metrics.make.score"] == 1


def test_artifacts(project, tmp_path):
    root = project(PIPELINE)
    first = cairn.run()
    cairn.run(params={"n": 2})
    d = cairn.artifact("make/d")
    assert d.path().name == "d" and d.load("v.json") == {"n": 2}
    assert d.load("t.csv") == [{"a": "1", "b": "2"}]
    assert first.artifact("make/d").load("v.json") == {"n": 1}
    assert first.artifact("make/d").id != d.id and first.artifact("make/note").id.startswith("sha")
    with cairn.artifact("make/note").open() as f:
        assert f.read() == "x a 0.1\n"
    with pytest.raises(ValueError, match="read-only"):
        cairn.artifact("make/note").open("w")
    with pytest.raises(ValueError, match="is a directory"):
        d.load()
    assert (
        cairn.artifact("make/note").load() == "x a 0.1\n"
        and d.load("v.json", kind="text")[0] == "{"
    )
    with pytest.raises(ValueError, match="there is no kind `pickle`"):
        d.load("v.json", kind="pickle")
    assert d.load("v.json", reader=lambda p: p.read_bytes()) == b'{"n": 2}'
    # The copy in .cairn/artifacts is made once; nothing appears in the project.
    assert d.path() == cairn.artifact("make/d").path()
    assert sorted(p.name for p in root.iterdir()) == [".cairn", "cairn.yaml", "pipeline.yaml"]
    assert d.save(root / "mine").joinpath("v.json").exists()
    made = {n["task"] for n in d.lineage()["nodes"] if n["kind"] == "attempt"}
    assert made == {"make"}
    os.makedirs(root / "sub" / "deeper")
    assert cairn.artifact("make/d", project=root / "sub" / "deeper").load("v.json") == {"n": 2}


def test_graph(project):
    project(PIPELINE)
    graph = cairn.Project().graph()
    assert [n["name"] for n in graph.nodes] == ["make"] and graph.edges == []
    assert graph._repr_svg_().lstrip().startswith("<svg") and "make" in graph._repr_html_()


def test_errors_are_those_of_the_command(project):
    root = project("pipeline: p\nsteps: {a: {run: x, timeuot: 1h}}\n")
    with pytest.raises(cairn.InvalidPipeline, match="unknown key `timeuot`") as e:
        cairn.run()
    assert e.value.exit_code == 3 and e.value.errors[0]["line"] == 2
    assert "pipeline.yaml:2:21" in str(e.value)
    (root / "pipeline.yaml").write_text("pipeline: p\nsteps: {a: {run: echo no; exit 7}}\n")
    with pytest.raises(cairn.TaskFailed) as e:
        cairn.run()
    assert e.value.exit_code == 1 and e.value.answer["state"] == "failed"
    assert "exit status 7" in e.value.message
    with pytest.raises(cairn.EnvironmentFailed) as e:
        cairn.artifact("nothing/here").path()
    assert e.value.exit_code == 4 and "has no task `nothing/here`" in e.value.message
    with pytest.raises(cairn.UsageError, match="is in no project"):
        cairn.Project("/").root  # noqa: B018


def test_no_program(monkeypatch, tmp_path):
    monkeypatch.delenv("CAIRN_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(cairn.BinaryNotFound, match="put its directory into PATH"):
        cli.binary()
    # A script of this name isn't it: it would start us again.
    (tmp_path / "cairn").write_text("#!/bin/sh\n")
    (tmp_path / "cairn").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert cli._is_program(str(tmp_path / "cairn")) is False


def test_another_program_of_the_name(monkeypatch, tmp_path):
    (tmp_path / "cairn").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "cairn").chmod(0o755)
    monkeypatch.setenv("CAIRN_BINARY", str(tmp_path / "cairn"))
    with pytest.raises(cairn.CairnError, match="something other than JSON"):
        cli.answer(["runs"])


def test_module_is_the_program(project):
    project(PIPELINE)
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    out = subprocess.run(
        [sys.executable, "-m", "cairn", "version", "--json"],
        capture_output=True,
        text=True,
        env=env,
    )
    assert json.loads(out.stdout)["schema"] == "cairn.version/1", out.stderr
    out = subprocess.run([sys.executable, "-m", "cairn", "nonsense"], capture_output=True, env=env)
    assert out.returncode == 2


def test_values_of_params():
    params = {"b": True, "l": [1, "a, 'b'"], "g": {"x": 1e-9}, "s": "a=b"}
    options = ["b=true", "l=[1, 'a, ''b''']", "g.x=1e-09", "s=a=b"]
    assert _param_options(params) == [x for o in options for x in ("-p", o)]
