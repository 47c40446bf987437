"""A Snakefile → a pipeline.

A Snakefile is Python, so Snakemake itself reads it and says which jobs there are: it must be
installed for the python3 that runs this. Each job becomes a step with the command that Snakemake
would run. Jobs whose rule has no shell command (script, run, notebook, wrapper) call Snakemake
for that one rule.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from .model import ImportFailed, Names, Pipeline, ident, literal, place

JOBS_MAX = 5000
# A rule's threads are at most these: the same on every machine, so that the result is.
CORES = 16


def _jobs(path: str) -> Tuple[List[Any], Any]:
    try:
        from snakemake.api import SnakemakeApi
        from snakemake.settings.types import DAGSettings, OutputSettings, ResourceSettings
    except ImportError:
        raise ImportFailed(
            "reading a Snakefile needs Snakemake 8 or newer, for this python3",
            f"{sys.executable} -m pip install snakemake",
        ) from None
    here = Path(path).resolve()
    workdir = here.parent.parent if here.parent.name == "workflow" else here.parent
    try:
        with SnakemakeApi(OutputSettings(verbose=False)) as api:
            workflow = api.workflow(
                resource_settings=ResourceSettings(cores=CORES), snakefile=here, workdir=workdir
            )
            workflow.dag(DAGSettings(forceall=True))
            inner = workflow._workflow
            # What its own `--dag` does, which is all that tells of jobs with their commands.
            inner._prepare_dag(forceall=True, ignore_incomplete=True, lock_warn_only=True)
            inner._build_dag()
            return [_Job(j, inner) for j in inner.dag.jobs], inner
    except ImportFailed:
        raise
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        text = str(e).strip() or type(e).__name__
        raise ImportFailed(
            f"{path}: Snakemake can't plan it: {text}",
            "`snakemake -n` must succeed first: inputs and configuration have to be there",
        ) from None


class _Job:
    """What is needed of a job, read while its workflow is open."""

    def __init__(self, job: Any, workflow: Any) -> None:
        rule = job.rule
        self.rule, self.file = str(rule.name), str(rule.snakefile)
        # A rule knows its line in the Python that Snakemake makes of the file.
        lines = getattr(workflow, "linemaps", {}).get(rule.snakefile, {})
        self.line = int(lines.get(rule.lineno, rule.lineno)) if lines else int(rule.lineno)
        self.wildcards = [str(w) for w in job.wildcards]
        self.inputs = [str(f) for f in job.input]
        self.outputs = [str(f) for f in job.output]
        self.logs = [str(f) for f in job.log]
        flags: Set[str] = set()
        self.directories = set()
        self.temporary = set()
        for f in [*job.output, *job.input]:
            own = {k for k, v in getattr(f, "flags", {}).items() if v}
            flags |= own
            if "directory" in own:
                self.directories.add(str(f))
            if "temp" in own:
                self.temporary.add(str(f))
        self.flags = flags
        self.command: Optional[str] = job.shellcmd if job.is_shell else None
        self.is_empty = bool(job.is_norun)
        kinds = ("script", "notebook", "wrapper", "cwl", "run")
        self.kind = next((k for k in kinds if getattr(job, f"is_{k}", False)), "shell")
        self.script = str(rule.script) if rule.script else None
        self.is_checkpoint = bool(job.is_checkpoint)
        self.threads = int(job.threads or 1)
        self.resources: Dict[str, float] = {}
        for k, v in dict(job.resources.items()).items():
            v = getattr(v, "value", v)
            if k in ("mem_mb", "runtime", "gpu") and isinstance(v, (int, float)):
                self.resources[k] = v
        self.conda = str(rule.conda_env) if rule.conda_env else None
        self.container = str(rule.container_img) if rule.container_img else None
        self.retries = int(getattr(job, "restart_times", 0) or 0)
        self.messages = str(rule.message) if getattr(rule, "message", None) else None


class Importer:
    def __init__(self, path: str) -> None:
        self.path = path
        jobs, workflow = _jobs(path)
        self.jobs = jobs
        here = Path(path).resolve()
        self.workdir = here.parent.parent if here.parent.name == "workflow" else here.parent
        self.p = Pipeline(self.workdir.name, path)
        self.names = Names()
        self.made: Dict[str, Tuple[str, str]] = {}  # path → step, output
        self.sources: Dict[str, str] = {}
        self.files = [os.path.relpath(f, self.workdir) for f in self._included(workflow)]

    def _included(self, workflow: Any) -> List[str]:
        found = []
        for f in getattr(workflow, "included", []):
            path = getattr(f, "get_path_or_uri", None)
            found.append(str(path(secret_free=True) if path else f))
        found += [str(f) for f in getattr(workflow, "configfiles", [])]
        base = self.workdir
        return [
            f
            for f in dict.fromkeys(os.path.abspath(os.path.join(base, f)) for f in found)
            if os.path.exists(f)
        ]

    def _file(self, name: str) -> str:
        return os.path.relpath(name, os.getcwd())

    def convert(self) -> Pipeline:
        jobs = [
            j for j in self.jobs if not j.is_empty and (j.command is not None or j.kind != "shell")
        ]
        if not jobs:
            raise ImportFailed(f"{self.path}: it has no jobs to run")
        if len(jobs) > JOBS_MAX:
            raise ImportFailed(
                f"{self.path} has {len(jobs)} jobs, more than {JOBS_MAX}",
                "import it with fewer samples, and give its steps `each`",
            )
        # By what they need, then by name: the same Snakefile gives the same pipeline.
        jobs.sort(key=lambda j: (j.line, j.rule, j.wildcards, j.outputs))
        steps: Dict[int, str] = {}
        outputs: Dict[int, Dict[str, str]] = {}
        for i, job in enumerate(jobs):
            steps[i] = self.names.new("-".join([job.rule, *job.wildcards]))
            outputs[i] = {}
            for path in [*job.outputs, *(f for f in job.logs if not job.command)]:
                name = ident(os.path.basename(path.rstrip("/")), outputs[i])
                directory = path in job.directories
                outputs[i][name] = f"{path.rstrip('/')}/" if directory else path
                self.made[path] = (steps[i], name)
        for i, job in enumerate(jobs):
            self._step(steps[i], job, outputs[i])
        self._order()
        if any(j.is_checkpoint for j in self.jobs):
            self.p.note(
                None,
                "checkpoints",
                "jobs behind them aren't known yet: give their steps "
                '`each: "${{ steps.X.outputs.Y }}/*"`',
            )
        return self.p

    def _order(self) -> None:
        """Steps behind those whose outputs they read, as a reader expects."""
        done: Dict[str, Dict[str, Any]] = {}

        def visit(name: str) -> None:
            if name in done:
                return
            text = str(self.p.steps[name].get("inputs", ""))
            for other in re.findall(r"steps\.([a-z0-9_-]+)\.outputs", text):
                visit(other)
            done[name] = self.p.steps[name]

        sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * JOBS_MAX))
        for name in list(self.p.steps):
            visit(name)
        self.p.steps = done

    def _source(self, path: str) -> str:
        if path not in self.sources:
            name = self.sources[path] = ident(path, self.p.inputs)
            self.p.inputs[name] = f"{path}/" if (self.workdir / path).is_dir() else path
        return self.sources[path]

    def _step(self, name: str, job: _Job, outputs: Dict[str, str]) -> None:
        inputs: Dict[str, str] = {}
        lines: List[str] = []
        for path in dict.fromkeys(job.inputs):
            if os.path.isabs(path) or path.startswith(".."):
                self.p.note(
                    job.line,
                    f"input {path} lies outside of the project",
                    "bring it into the project",
                    file=self._file(job.file),
                )
                continue
            of = ident(os.path.basename(path.rstrip("/")), inputs)
            made = self.made.get(path)
            inputs[of] = (
                f"${{{{ steps.{made[0]}.outputs.{made[1]} }}}}"
                if made
                else f"${{{{ inputs.{self._source(path)} }}}}"
            )
            lines.append(place(f"${{{{ inputs.{of} }}}}", path))
        folders = sorted({os.path.dirname(f) for f in job.logs if os.path.dirname(f)})
        if folders and job.command:
            lines.append("mkdir -p " + " ".join(f'"$PWD/{f}"' for f in folders))
        code: Optional[List[str]] = None
        if job.command is not None:
            lines.append(literal(job.command.strip("\n")))
        else:
            code = self._own(job)
            targets = " ".join(shlex.quote(o) for o in job.outputs[:1])
            lines.append(
                f"python3 -m snakemake --cores {job.threads} --nolock --quiet all "
                f'--rerun-triggers mtime --snakefile "$PWD/"{shlex.quote(self.files[0])} '
                f"--allowed-rules {shlex.quote(job.rule)} -- {targets}"
            )
            self.p.note(
                job.line,
                f"rule {job.rule} has a `{job.kind}`, not a shell command",
                "its step calls Snakemake for this rule",
                file=self._file(job.file),
            )
        resources: Dict[str, Any] = {}
        if job.threads > 1:
            resources["cpu"] = job.threads
        if "mem_mb" in job.resources:
            resources["memory"] = f"{int(job.resources['mem_mb'])}M"
        if job.resources.get("gpu"):
            resources["gpu"] = int(job.resources["gpu"])
        image = job.container.replace("docker://", "") if job.container else None
        step = {
            "image": image,
            "shell": "bash",
            "run": "\n".join(lines),
            "code": code,
            "inputs": inputs or None,
            "outputs": {n: self._output(job, p) for n, p in outputs.items()} or None,
            "resources": resources or None,
            "timeout": f"{int(job.resources['runtime'])}m"
            if job.resources.get("runtime")
            else None,
            "retry": {"max": job.retries} if job.retries else None,
        }
        self.p.steps[name] = {k: v for k, v in step.items() if v}
        if job.conda:
            self.p.note(
                job.line,
                f"rule {job.rule} has the environment {job.conda}",
                "`environment:` takes an explicit lock file: conda list --explicit --md5",
                file=self._file(job.file),
            )
        for flag in sorted(job.flags & {"protected", "pipe", "service", "ancient", "touch"}):
            todo = {
                "ancient": "content counts here, not times",
                "touch": "write the file in the command",
            }.get(flag, "not imported")
            self.p.note(
                job.line,
                f"rule {job.rule} has files that are `{flag}`",
                todo,
                file=self._file(job.file),
            )

    @staticmethod
    def _output(job: _Job, path: str) -> Any:
        return {"path": path, "temp": True} if path.rstrip("/") in job.temporary else path

    def _own(self, job: _Job) -> List[str]:
        """What Snakemake reads for a rule, with its script's folder, since that may read more."""
        found = list(self.files)
        if job.script and "://" not in job.script:
            base = os.path.dirname(job.file)
            script = os.path.relpath(os.path.join(base, job.script), self.workdir)
            found.append(script if not os.path.dirname(script) else os.path.dirname(script))
        return [f for f in dict.fromkeys(found) if not f.startswith("..")]


def convert(path: str) -> Pipeline:
    return Importer(path).convert()
