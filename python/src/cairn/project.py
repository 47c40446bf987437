"""Outside of steps: a project's runs, graphs and artifacts, for notebooks and scripts."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from html import escape
from pathlib import Path
from typing import (
    IO,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
    overload,
)

from . import cli
from .errors import EnvironmentFailed, UsageError

Where = Union[str, "os.PathLike[str]"]


def _param_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        # Texts in single quotes, so that "1" stays a text.
        items = [
            "'" + v.replace("'", "''") + "'" if isinstance(v, str) else _param_text(v)
            for v in value
        ]
        return "[" + ", ".join(items) + "]"
    return str(value)


def _param_options(params: Mapping[str, Any], prefix: str = "") -> List[str]:
    out: List[str] = []
    for name, value in params.items():
        if isinstance(value, Mapping):
            out += _param_options(value, f"{prefix}{name}.")
        else:
            out += ["-p", f"{prefix}{name}={_param_text(value)}"]
    return out


class Run:
    """A run: `id`, `hash`, `state`, `params`, `metrics`, `counts`, …; `facts` has all of it."""

    def __init__(self, facts: Mapping[str, Any], project: Project) -> None:
        self.facts: Dict[str, Any] = dict(facts)
        self.project = project

    @property
    def id(self) -> str:
        return str(self.facts["id"])

    @property
    def hash(self) -> Optional[str]:
        found = self.facts.get("hash")
        return str(found) if found else None

    @property
    def state(self) -> str:
        return str(self.facts["state"])

    @property
    def pipeline(self) -> str:
        return str(self.facts["pipeline"])

    @property
    def params(self) -> Dict[str, Any]:
        return dict(self.facts.get("params") or {})

    @property
    def counts(self) -> Dict[str, int]:
        return dict(self.facts.get("counts") or {})

    @property
    def metrics(self) -> Dict[str, Dict[str, Optional[float]]]:
        """By task."""
        found = self.project.answer(["metrics", self.id])["runs"]
        return dict(found[0]["metrics"]) if found else {}

    def tasks(self) -> List[Dict[str, Any]]:
        """Its attempts and the tasks that weren't executed, as in `cairn status --json`."""
        found = self.project.answer(["status", self.id])
        return [*found["tasks"], *found.get("not_executed", [])]

    def series(self, metric: str) -> List[Dict[str, Any]]:
        """Curves of a metric: task, metric, points of (step, value)."""
        found = self.project.answer(["metrics", self.id, f"--plot={metric}"])
        return list(found["series"])

    def all_series(self) -> List[Dict[str, Any]]:
        """Curves of all metrics."""
        try:
            return list(self.project.answer(["metrics", self.id, "--plot"])["series"])
        except EnvironmentFailed:  # it has none
            return []

    def artifact(self, what: str) -> Artifact:
        """TASK/OUTPUT of this run, or TASK alone when it has one output."""
        return self.project.artifact(what, run=self.id)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.state}>"

    def _repr_html_(self) -> str:
        rows = [("pipeline", self.pipeline), ("state", self.state), ("hash", self.hash or "none")]
        rows += [(k, _shown(v)) for k, v in sorted(self.params.items())]
        rows += [
            (f"{task} {name}", _shown(value))
            for task, named in sorted(self.metrics.items())
            for name, value in sorted(named.items())
        ]
        body = "".join(
            f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>"
            for k, v in rows
        )
        return f"<table><caption>{escape(self.id)}</caption>{body}</table>"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Runs(Sequence[Run]):
    """Runs, newest first. In a notebook it is a table; `to_pandas()` makes it a DataFrame."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, i: int) -> Run: ...
    @overload
    def __getitem__(self, i: slice) -> Runs: ...
    def __getitem__(self, i: Union[int, slice]) -> Union[Run, Runs]:
        return Runs(self._runs[i]) if isinstance(i, slice) else self._runs[i]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def rows(self) -> List[Dict[str, Any]]:
        """One flat dict a run: id, hash, state, started, duration_s, params.X, metrics.TASK.X."""
        if not self._runs:
            return []
        project = self._runs[0].project
        measured = project.answer(["metrics", "-n", "0"])["runs"]
        metrics = {r["id"]: r["metrics"] for r in measured}
        out = []
        for r in self._runs:
            row: Dict[str, Any] = {
                "id": r.id,
                "hash": r.hash,
                "pipeline": r.pipeline,
                "state": r.state,
                "started": r.facts.get("started"),
                "duration_s": r.facts["duration_ns"] / 1e9,
            }
            row.update((f"params.{k}", v) for k, v in r.params.items())
            for task, named in metrics.get(r.id, {}).items():
                row.update((f"metrics.{task}.{k}", v) for k, v in named.items())
            out.append(row)
        return out

    def to_pandas(self) -> Any:
        """A pandas DataFrame of rows(), indexed by run."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas() needs pandas: pip install pandas") from None
        frame = pandas.DataFrame(self.rows())
        if len(frame):
            frame["started"] = pandas.to_datetime(frame["started"])
            frame = frame.set_index("id")
        return frame

    def __repr__(self) -> str:
        return f"<{len(self)} runs: {', '.join(r.id for r in self._runs[:5])}>"

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = list(dict.fromkeys(k for row in rows for k in row))
        head = "".join(f"<th>{escape(n)}</th>" for n in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(r.get(n, '')))}</td>" for n in names) + "</tr>"
            for r in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Artifact:
    """Content that a run made or read. `id` names its bytes; path() makes a copy."""

    def __init__(self, what: str, project: Project, run: Optional[str] = None) -> None:
        self.what, self.project = what, project
        self._run = run
        self._lineage: Optional[Dict[str, Any]] = None

    def _options(self) -> List[str]:
        return ["-r", self._run] if self._run else []

    def lineage(self) -> Dict[str, Any]:
        """Where it came from, as `cairn lineage --json` says."""
        if self._lineage is None:
            self._lineage = self.project.answer(["lineage", self.what, *self._options()])
        return self._lineage

    @property
    def id(self) -> str:
        return str(self.lineage()["artifact"])

    def path(self) -> Path:
        """A copy below .cairn/artifacts, named as the output, made once for each content.

        Don't change it; save() makes a copy that is yours.
        """
        name = self.what.rsplit("/", 1)[-1].split("@")[-1]
        place = self.project.root / ".cairn" / "artifacts" / self.id.replace("sha256:", "") / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as made:
                copy = self.save(Path(made) / "content")
                try:
                    copy.rename(place)
                except OSError:  # another process was first
                    if not place.exists():
                        raise
        return place

    def save(self, to: Where) -> Path:
        """A copy of your own at this path, which must not exist."""
        got = self.project.answer(["get", self.what, *self._options(), "-o", os.path.abspath(to)])
        return Path(got["path"])

    def open(self, mode: str = "r", member: Optional[str] = None, **options: Any) -> IO[Any]:
        """Opens it for reading; `member` is the path of a file inside of a directory."""
        if set(mode) & set("wax+"):
            raise ValueError("an artifact is read-only")
        path = self.path() / member if member else self.path()
        if "b" not in mode:
            options.setdefault("encoding", "utf-8")
        return open(path, mode, **options)

    def load(
        self,
        member: Optional[str] = None,
        kind: Optional[str] = None,
        reader: Optional[Callable[[Path], Any]] = None,
    ) -> Any:
        """Its value. `member` is the path of a file inside of a directory.

        `kind` is json, jsonl, csv, tsv (lists of dicts), text or npy (NumPy's arrays). Without it,
        the ending of the member tells. The record of an output has no file name: what is JSON
        comes as its value, other text as text. `reader` reads anything else:
        `load(reader=pandas.read_parquet)`. Pickles execute code when they are read, so there is no
        kind for them.
        """
        path = self.path() / member if member else self.path()
        if reader:
            return reader(path)
        if path.is_dir():
            raise ValueError(
                f"{self.what} is a directory ({', '.join(sorted(os.listdir(path))[:5])}): "
                "name a `member`, or give a `reader`"
            )
        return _load(path, kind or _kind_of(path))

    def __repr__(self) -> str:
        return f"<Artifact {self.what}{f' of {self._run}' if self._run else ''}>"


_KINDS = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".npy": "npy",
    ".npz": "npy",
    "": "",
    **dict.fromkeys((".txt", ".md", ".log", ".yaml", ".html", ".svg"), "text"),
}


def _kind_of(path: Path) -> str:
    if path.suffix.lower() in _KINDS:
        return _KINDS[path.suffix.lower()]
    raise ValueError(
        f"nothing here reads `{path.name}`: "
        "name its `kind`, or give a `reader` (load(reader=pandas.read_parquet))"
    )


def _load(path: Path, kind: str) -> Any:
    if kind not in _KINDS.values():
        raise ValueError(
            f"there is no kind `{kind}`: {', '.join(sorted({*_KINDS.values()} - {''}))}"
        )
    if kind == "npy":
        import numpy

        return numpy.load(path, allow_pickle=False)
    with open(path, encoding="utf-8", newline="") as f:
        if kind == "json":
            return json.load(f)
        if kind == "jsonl":
            return [json.loads(line) for line in f if line.strip()]
        if kind in ("csv", "tsv"):
            return list(csv.DictReader(f, delimiter="\t" if kind == "tsv" else ","))
        try:
            text = f.read()
        except UnicodeDecodeError:
            raise ValueError(
                "this content is no text: name its `kind`, or give a `reader`"
            ) from None
    try:
        return text if kind else json.loads(text)
    except ValueError:
        return text


class Graph:
    """A pipeline's graph. In a notebook it is a drawing."""

    def __init__(self, facts: Mapping[str, Any], svg: str) -> None:
        self.facts = dict(facts)
        self.svg = svg

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        return list(self.facts["nodes"])

    @property
    def edges(self) -> List[Dict[str, Any]]:
        return list(self.facts["edges"])

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"


class Project:
    """A project: the directory of cairn.yaml, or one below it."""

    def __init__(self, path: Where = ".") -> None:
        self.path = Path(path).resolve()

    @property
    def root(self) -> Path:
        """Where cairn.yaml or .cairn is."""
        for folder in (self.path, *self.path.parents):
            if (folder / "cairn.yaml").exists() or (folder / ".cairn").is_dir():
                return folder
        raise UsageError(
            f"{self.path} is in no project", hint="`cairn init` makes one of a directory"
        )

    def answer(self, args: Sequence[str], cwd: Optional[str] = None) -> Dict[str, Any]:
        """What `cairn ARGS --json` answers in this project (docs/json.md)."""
        return cli.answer(args, cwd=cwd or str(self.path))

    def runs(
        self,
        *,
        pipeline: Optional[str] = None,
        state: Optional[str] = None,
        since: Optional[str] = None,
        param: Sequence[str] = (),
        metric: Sequence[str] = (),
        tag: Optional[str] = None,
        sweep: Optional[str] = None,
        sort: Optional[str] = None,
        limit: int = 0,
    ) -> Runs:
        """Its runs, newest first, as `cairn runs` filters them: metric=["accuracy>=0.9"]."""
        args = ["runs", "-n", str(limit)]
        named = {"pipeline": pipeline, "state": state, "since": since, "tag": tag, "sweep": sweep}
        for name, value in named.items():
            if value is not None:
                args += [f"--{name}={value}"]
        for condition in [param] if isinstance(param, str) else param:
            args += ["-p", condition]
        for condition in [metric] if isinstance(metric, str) else metric:
            args += ["-m", condition]
        if sort:
            args += [f"--sort={sort}"]
        return Runs(Run(r, self) for r in self.answer(args)["runs"])

    def get_run(self, which: str = "last") -> Run:
        """A run by its id, its run hash or the beginning of one, or a tag."""
        return Run(self.answer(["status", which])["run"], self)

    def run(
        self,
        pipeline: Where = "pipeline.yaml",
        targets: Union[str, Sequence[str]] = (),
        *,
        params: Optional[Mapping[str, Any]] = None,
        options: Sequence[str] = (),
    ) -> Run:
        """Runs a pipeline to its end. `options` are more of `cairn run`'s. A run that fails raises
        TaskFailed, whose `answer` has the run."""
        names = [targets] if isinstance(targets, str) else list(targets)
        args = ["run", os.fspath(pipeline), *names, *_param_options(params or {}), *options]
        return Run(self.answer(args), self)

    def artifact(self, what: str, run: Optional[str] = None) -> Artifact:
        """TASK/OUTPUT of the newest run, or of `run`; or a content id."""
        return Artifact(what, self, run)

    def graph(self, pipeline: Where = "pipeline.yaml", tasks: bool = False) -> Graph:
        args = ["graph", os.fspath(pipeline), *(["--tasks"] if tasks else [])]
        svg = cli.text([*args, "--format", "svg"], cwd=str(self.path))
        return Graph(self.answer(args), svg)

    def __repr__(self) -> str:
        return f"Project({str(self.path)!r})"


def run(
    pipeline: Where = "pipeline.yaml",
    targets: Union[str, Sequence[str]] = (),
    *,
    params: Optional[Mapping[str, Any]] = None,
    options: Sequence[str] = (),
    project: Where = ".",
) -> Run:
    """Runs a pipeline of the project in this directory. See Project.run()."""
    return Project(project).run(pipeline, targets, params=params, options=options)


def artifact(what: str, run: Optional[str] = None, project: Where = ".") -> Artifact:
    """An artifact of the project in this directory: artifact("train/model").path()."""
    return Project(project).artifact(what, run)
