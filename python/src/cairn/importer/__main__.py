"""python3 -m cairn.importer, which `cairn import` starts."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import List, Optional, Tuple

from .. import cli
from ..errors import BinaryNotFound, CairnError
from . import argo, dvc, kubeflow, snakefile
from .model import ImportFailed, Note, Pipeline
from .yamlfile import documents

FORMATS = ("dvc", "argo", "kubeflow", "snakemake")


def format_of(path: str) -> str:
    name = os.path.basename(path)
    if name == "Snakefile" or name.endswith(".smk"):
        return "snakemake"
    if name == "dvc.yaml":
        return "dvc"
    for doc in documents(path):
        if isinstance(doc, dict):
            if str(doc.get("apiVersion", "")).startswith("argoproj.io/"):
                return "argo"
            if "pipelineInfo" in doc or "deploymentSpec" in doc:
                return "kubeflow"
            if "stages" in doc:
                return "dvc"
    raise ImportFailed(
        f"{path} is no dvc.yaml, workflow of Argo, compiled pipeline of Kubeflow or Snakefile",
        "--format says which one it is",
    )


def convert(path: str, kind: str, data: bool) -> Tuple[Pipeline, int]:
    if kind == "dvc":
        return dvc.convert(path, data)
    module = {"argo": argo, "kubeflow": kubeflow, "snakemake": snakefile}[kind]
    return module.convert(path), 0


def _check(out: str, pipeline: Pipeline) -> None:
    """What `cairn check` says of the result belongs into the list."""
    try:
        found = cli.answer(["check", out], allowed=(0, 3))
    except (BinaryNotFound, CairnError) as e:
        pipeline.notes.append(Note(out, None, f"it wasn't checked: {e.message}", "cairn check"))
        return
    for file in found["files"]:
        for p in file["problems"]:
            if p["severity"] == "error":
                pipeline.notes.append(
                    Note(out, p["line"], p["message"], "this isn't valid yet: change it by hand")
                )


def _fail(e: ImportFailed, as_json: bool) -> int:
    if as_json:
        error = {
            "severity": "error",
            "message": e.message,
            "file": None,
            "line": None,
            "column": None,
            "hint": e.hint,
        }
        found = {"schema": "cairn.error/1", "errors": [error], "warnings": [], "exit": 2}
        print(json.dumps(found), file=sys.stderr)
    else:
        print(f"cairn: {e.message}{f': {e.hint}' if e.hint else ''}", file=sys.stderr)
    return 2


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="cairn import", add_help=False)
    parser.add_argument("file")
    parser.add_argument("-o", "--output", default=None)
    parser.add_argument("--format", choices=FORMATS)
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--no-data", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    out = args.output or os.path.join(os.path.dirname(args.file), "pipeline.yaml")
    try:
        if not os.path.exists(args.file):
            raise ImportFailed(f"there is no {args.file}")
        if out != "-" and os.path.exists(out) and not args.replace:
            raise ImportFailed(f"{out} exists already", "give another -o FILE, or --replace")
        kind = args.format or format_of(args.file)
        pipeline, linked = convert(args.file, kind, not args.no_data)
    except ImportFailed as e:
        return _fail(e, args.json)
    if out == "-":
        sys.stdout.write(pipeline.text())
    else:
        with open(out, "w", encoding="utf-8") as f:
            f.write(pipeline.text())
        _check(out, pipeline)
    if args.json:
        notes = [
            {"file": n.file, "line": n.line, "what": n.what, "todo": n.todo} for n in pipeline.notes
        ]
        answer = {
            "schema": "cairn.import/1",
            "format": kind,
            "path": out,
            "pipeline": pipeline.name,
            "steps": len(pipeline.steps) + len(pipeline.finally_),
            "linked": linked,
            "notes": notes,
        }
        print(json.dumps(answer, indent=2, sort_keys=True))
        return 0
    to = sys.stderr if out == "-" else sys.stdout
    n = len(pipeline.steps) + len(pipeline.finally_)
    print(
        f"{out}: pipeline {pipeline.name} with {n} step{'s' * (n != 1)}, from {args.file}", file=to
    )
    if linked:
        print(f"linked {linked} file{'s' * (linked != 1)} of DVC's cache into the project", file=to)
    if pipeline.notes:
        print("not said by it, or said otherwise:", file=to)
        for note in pipeline.notes:
            print(f"  {note}", file=to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
