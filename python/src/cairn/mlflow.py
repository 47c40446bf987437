"""MLflow: runs of Cairn out to its server, and its runs in.

    from cairn.mlflow import export, fetch
    export(project.runs(), "http://mlflow.example.org:5000", experiment="fashion")
    table = fetch("http://mlflow.example.org:5000", experiment="fashion")

Both use MLflow's own client. An export is one run of MLflow for each run, marked with the run's
id in the tag `cairn.run`: what is there already isn't sent again.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, Dict, Iterable, List, Optional

from .project import Run

TAG = "cairn.run"
STATES = {"succeeded": "FINISHED", "running": "RUNNING", "cancelled": "KILLED"}
# MLflow takes at most so many in one request.
PARAMS_MAX, METRICS_MAX, VALUE_MAX = 100, 1000, 6000


def _client(uri: Optional[str]) -> Any:
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise ImportError("this needs MLflow: pip install 'cairn-engine[mlflow]'") from None
    return MlflowClient(tracking_uri=uri)


def _experiment(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name))


def _ms(time: Optional[str]) -> int:
    if not time:
        return 0
    at = datetime.datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%fZ")
    return int(at.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000)


def _name(task: str, metric: str) -> str:
    """`train[fold=0]` and `accuracy` are `train fold:0/accuracy`: MLflow takes no brackets."""
    text = f"{task}/{metric}".translate({91: " ", 93: None, 61: ":", 44: " "})
    return re.sub(r"[^\w\-. :/]", "_", text, flags=re.ASCII)


def export(
    runs: Iterable[Run],
    uri: Optional[str] = None,
    *,
    experiment: Optional[str] = None,
    artifacts: Iterable[str] = (),
    series: bool = True,
) -> List[str]:
    """Sends runs with params, metrics, curves, and the outputs that `artifacts` names.

    Returns the ids of their runs in MLflow. The experiment is named after the pipeline, unless it
    is given.
    """
    from mlflow.entities import Metric, Param, RunTag

    client = _client(uri)
    wanted = list(artifacts)
    sent = []
    for run in runs:
        where = _experiment(client, experiment or run.pipeline)
        there = client.search_runs([where], f"tags.`{TAG}` = '{run.id}'", max_results=1)
        if there:
            sent.append(str(there[0].info.run_id))
            continue
        start = _ms(run.facts.get("started"))
        # The tag of the run comes last: an export that broke off is made again.
        made = client.create_run(where, start_time=start, run_name=run.id)
        id_ = made.info.run_id
        params = [Param(k, str(v)[:VALUE_MAX]) for k, v in sorted(run.params.items())]
        for i in range(0, len(params), PARAMS_MAX):
            client.log_batch(id_, params=params[i : i + PARAMS_MAX])
        metrics = [
            Metric(_name(task, name), value, start, 0)
            for task, named in run.metrics.items()
            for name, value in named.items()
            if value is not None
        ]
        for curve in run.all_series() if series else ():
            metrics += [
                Metric(_name(curve["task"], curve["metric"]), value, start, int(step))
                for step, value in curve["points"]
                if value is not None and step is not None
            ]
        for i in range(0, len(metrics), METRICS_MAX):
            client.log_batch(id_, metrics=metrics[i : i + METRICS_MAX])
        for what in wanted:
            client.log_artifact(id_, str(run.artifact(what).path()), _name(*what.split("/", 1)))
        facts = {
            "cairn.hash": run.hash,
            "cairn.state": run.state,
            "cairn.pipeline": run.pipeline,
            "mlflow.source.git.commit": run.facts.get("git_commit"),
            TAG: run.id,
        }
        client.log_batch(id_, tags=[RunTag(k, str(v)) for k, v in facts.items() if v])
        end = start + int(run.facts.get("duration_ns", 0) / 1e6)
        client.set_terminated(id_, STATES.get(run.state, "FAILED"), end_time=end)
        sent.append(str(id_))
    return sent


def fetch(
    uri: Optional[str] = None, *, experiment: Optional[str] = None, filter: str = ""
) -> List[Dict[str, Any]]:
    """Runs of MLflow as rows like those of Runs.rows(): id, state, started, params.X, metrics.X.

    So both stand in one table: pandas.DataFrame(project.runs().rows() + fetch(…)).
    """
    client = _client(uri)
    if experiment:
        found = client.get_experiment_by_name(experiment)
        if found is None:
            raise LookupError(f"MLflow has no experiment `{experiment}`")
        experiments = [found.experiment_id]
    else:
        experiments = [e.experiment_id for e in client.search_experiments()]
    states = {v: k for k, v in STATES.items()}
    rows: List[Dict[str, Any]] = []
    token = None
    while True:
        page = client.search_runs(experiments, filter, page_token=token)
        for run in page:
            info = run.info
            started = datetime.datetime.fromtimestamp(
                (info.start_time or 0) / 1000, datetime.timezone.utc
            )
            ended = info.end_time or info.start_time or 0
            row: Dict[str, Any] = {
                "id": info.run_id,
                "hash": run.data.tags.get("cairn.hash"),
                "pipeline": run.data.tags.get("cairn.pipeline"),
                "state": states.get(info.status, "failed"),
                "started": started.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
                "duration_s": (ended - (info.start_time or 0)) / 1000,
            }
            row.update((f"params.{k}", v) for k, v in run.data.params.items())
            row.update((f"metrics.{k.replace('/', '.')}", v) for k, v in run.data.metrics.items())
            rows.append(row)
        token = page.token
        if not token:
            return rows
