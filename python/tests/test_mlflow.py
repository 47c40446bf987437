"""MLflow's real server on loopback. Skipped without MLflow."""

import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import cairn

mlflow = pytest.importorskip("mlflow")

PIPELINE = """
pipeline: demo
params: {lr: 0.1, model: {depth: 3}}
steps:
  train:
    matrix: {fold: [0, 1]}
    run: |
      echo '{"step": 0, "loss": 2}' >s.jsonl; echo '{"step": 1, "loss": 0.5}' >>s.jsonl
      echo '{"accuracy": 0.9, "bad": null}' >m.json; echo weights ${{ params.lr }} >w
    outputs: {model: w}
    series: s.jsonl
    metrics: m.json
"""


@pytest.fixture
def server(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    root = tmp_path / "mlflow"
    root.mkdir()
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
        "--backend-store-uri",
        f"sqlite:///{root}/db",
        "--artifacts-destination",
        f"{root}/artifacts",
    ]
    with open(root / "log", "w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=root, start_new_session=True
        )
    try:
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                    break
            except OSError:
                assert process.poll() is None, (root / "log").read_text()
                assert time.monotonic() < end, (root / "log").read_text()
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


def test_out_and_in(project, server):
    from cairn.mlflow import export, fetch

    project(PIPELINE)
    first, second = cairn.run(), cairn.run(params={"lr": 0.2})
    runs = cairn.Project().runs()
    sent = export(runs, server, artifacts=["train[fold=0]/model"])
    assert len(sent) == 2 and export(runs, server) == sent  # nothing is sent twice
    client = mlflow.tracking.MlflowClient(tracking_uri=server)
    made = client.get_run(sent[1])
    assert made.info.run_name == first.id and made.info.status == "FINISHED"
    assert made.data.params == {"lr": "0.1", "model.depth": "3"}
    assert made.data.metrics["train fold:0/accuracy"] == 0.9
    curve = client.get_metric_history(sent[1], "train fold:1/loss")
    assert sorted((m.step, m.value) for m in curve) == [(0, 2.0), (1, 0.5)]
    assert made.data.tags["cairn.hash"] == first.hash
    path = client.download_artifacts(sent[0], "train fold:0/model/model")
    with open(path) as f:
        assert f.read() == "weights 0.2\n"
    rows = {r["hash"]: r for r in fetch(server, experiment="demo")}
    assert rows[second.hash]["params.lr"] == "0.2" and rows[second.hash]["state"] == "succeeded"
    assert rows[second.hash]["metrics.train fold:0.accuracy"] == 0.9
    with pytest.raises(LookupError, match="no experiment `nothing`"):
        fetch(server, experiment="nothing")
