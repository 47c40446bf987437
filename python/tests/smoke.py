"""The package with any Python, without pytest: `python3.X smoke.py`. Imports everything that needs
no other package, runs a pipeline, and reads what it made."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SRC))

import cairn  # noqa: E402
import cairn.importer.__main__  # noqa: E402
import cairn.mlflow  # noqa: E402
from cairn.importer.model import Names, Pipeline, write_values  # noqa: E402

PIPELINE = f"""
pipeline: smoke
params: {{lr: 0.1}}
steps:
  train:
    run: python3 train.py
    code: [train.py]
    params: [lr]
    outputs: {{model: model.json}}
    metrics: m.json
    series: log.jsonl
    env: {{PYTHONPATH: "{SRC}", PYTHONDONTWRITEBYTECODE: "1"}}
"""
TRAIN = """
import cairn
p = cairn.params()
cairn.log_metrics(step=1, loss=p.lr)
cairn.log_metrics(score=2)
cairn.outputs.model.write_text("[%s]" % p.lr)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("cairn.yaml").write_text("# project\n")
        Path("pipeline.yaml").write_text(PIPELINE)
        Path("train.py").write_text(TRAIN)
        # `python3` of the step is this Python.
        os.mkdir("bin")
        os.symlink(sys.executable, "bin/python3")
        os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        run = cairn.run(params={"lr": 0.5})
        assert run.metrics == {"train": {"score": 2}}, run.metrics
        assert run.artifact("train/model").load() == [0.5]
        assert run.series("loss")[0]["points"] == [[1, 0.5]]
        assert "svg" in cairn.Project().graph()._repr_html_()
        assert len(cairn.Project().runs().rows()) == 1
        try:
            cairn.run("nothing.yaml")
            raise AssertionError("a missing file is an error")
        except cairn.CairnError as e:
            assert e.exit_code, e
        assert Names().new("A b") == "a-b" and "pipeline: p" in Pipeline("p", "x").text()
        assert "text_of" in write_values({"a": "f"})
        Path("x.yaml").write_text("stages: {a: {cmd: x}}\n")
        done = subprocess.run(
            [sys.executable, "-m", "cairn.importer", "x.yaml", "-o", "-"],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(SRC)},
            encoding="utf-8",
        )
        assert "pipeline:" in done.stdout or "PyYAML" in done.stderr, done.stderr
        os.chdir("/")
    print("python", sys.version.split()[0])


main()
