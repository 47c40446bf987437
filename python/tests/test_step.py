"""Inside a step: by its environment, and in real runs."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SRC

import cairn
from cairn.step import Params

# Where the package is, for the programs of steps.
ENV = f'{{PYTHONPATH: "{SRC}", PYTHONDONTWRITEBYTECODE: "1"}}'


def test_params_nest_and_keep_their_types():
    p = Params({"lr": 0.1, "model.depth": 3, "model.head.size": 8.0, "l": [1, "x"], "a-b": None})
    assert p.lr == 0.1 and p["model.depth"] == 3 and p.model.head.size == 8.0
    assert isinstance(p["model.head.size"], float) and p.l == [1, "x"] and p.a_b is None
    assert dict(p.model) == {"depth": 3, "head": {"size": 8.0}}
    with pytest.raises(AttributeError, match=r"no param `lrr` \(it has: a-b, l, lr, model\)"):
        _ = p.lrr
    with pytest.raises(KeyError):
        p["model.x"]


def test_by_hand_there_are_defaults(monkeypatch, capsys):
    for name in ("CAIRN_PARAMS", "CAIRN_METRICS", "CAIRN_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)
    assert cairn.params(lr=1).lr == 1 and not cairn.in_step()
    with pytest.raises(cairn.NotInStep, match="give defaults"):
        cairn.params()
    with pytest.raises(cairn.NotInStep, match="declared in the step's `inputs`"):
        _ = cairn.inputs.data
    cairn.log_metrics(loss=1, step=3)
    assert json.loads(capsys.readouterr().out) == {"step": 3, "loss": 1}


def test_what_a_step_has_wins_over_defaults(monkeypatch):
    monkeypatch.setenv("CAIRN_PARAMS", '{"lr":0.5}')
    p = cairn.params(lr=1, epochs=2)
    assert (p.lr, p.epochs) == (0.5, 2)


def test_metrics_are_numbers_and_a_curve_has_gaps(monkeypatch, tmp_path):
    monkeypatch.setenv("CAIRN_OUTPUT_SERIES", str(tmp_path / "log.jsonl"))
    monkeypatch.setenv("CAIRN_METRICS", str(tmp_path / "m.json"))
    monkeypatch.delenv("CAIRN_GANG", raising=False)

    class Tensor:
        def item(self):
            return 0.25

    cairn.log_metrics({"val/loss": math.nan, "t": Tensor()}, step=1)
    cairn.log_metrics(accuracy=0.5)
    cairn.log_metrics(f1=1)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(x) for x in lines] == [{"step": 1, "val/loss": None, "t": 0.25}]
    assert json.loads((tmp_path / "m.json").read_text()) == {"accuracy": 0.5, "f1": 1}
    for wrong in ("x", None, True):
        with pytest.raises(TypeError, match="metric `a` must be a number"):
            cairn.log_metrics(a=wrong)
    monkeypatch.setenv("CAIRN_OUTPUT_SERIES", str(tmp_path / "log.csv"))
    with pytest.raises(cairn.NotInStep, match=r"series: log\.jsonl"):
        cairn.log_metrics(a=1, step=1)


def test_a_rank_prints_its_metrics(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CAIRN_OUTPUT_SERIES", str(tmp_path / "s"))
    monkeypatch.setenv("CAIRN_GANG", "1.0")
    cairn.log_metrics(loss=2.0, step=7)
    assert json.loads(capsys.readouterr().out) == {"step": 7, "loss": 2.0}
    assert not (tmp_path / "s").exists()


def test_in_a_run(project):
    root = project(
        f"""
pipeline: p
params: {{lr: 0.1, model: {{depth: 3}}, other: 1}}
inputs: {{raw: data.csv}}
steps:
  train:
    run: python3 train.py
    matrix: {{fold: [0, 1]}}
    params: {{lr: "${{{{ params.lr }}}}", depth: "${{{{ params.model.depth }}}}",
      fold: "${{{{ matrix.fold }}}}"}}
    inputs: {{raw-data: "${{{{ inputs.raw }}}}"}}
    outputs: {{model: model.json}}
    series: log.jsonl
    metrics: m.json
    env: {ENV}
    code: [train.py]
""",
        data_csv="a,b\n1,2\n",
        train_py="""
import json, os, cairn
os.chdir("/")
p = cairn.params()
assert sorted(p) == ["depth", "fold", "lr"] and p.depth == 3, p
assert list(cairn.inputs) == ["raw_data"] and "raw-data" in cairn.inputs
for i in range(3):
    cairn.log_metrics(step=i, loss=p.lr / (i + 1))
cairn.outputs.model.write_text(json.dumps([cairn.inputs.raw_data.read_text(), p.fold]))
cairn.log_metrics(accuracy=0.5 + p.fold)
""",
    )
    run = cairn.run(params={"lr": 0.3})
    assert run.state == "succeeded" and run.counts["executed"] == 2
    assert run.metrics["train[fold=1]"] == {"accuracy": 1.5}
    points = run.series("loss")[0]["points"]
    assert [p[0] for p in points] == [0, 1, 2] and points[0][1] == pytest.approx(0.3)
    assert run.artifact("train[fold=1]/model").load() == ["a,b\n1,2\n", 1]
    # `other` is in no key, and train doesn't see it.
    assert cairn.run(params={"lr": 0.3, "other": 2}).counts["hits"] == 2
    assert root == Path.cwd()


def test_the_package_imports_nothing_but_the_standard_library():
    code = "import sys, cairn; print([m for m in ('mlflow', 'pandas', 'yaml') if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(SRC)}
    )
    assert out.stdout.strip() == "[]", out.stderr
