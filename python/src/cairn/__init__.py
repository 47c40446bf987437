"""Cairn from Python.

Inside a step: params(), inputs, outputs, checkpoint(), log_metrics().
Outside: run(), Project, Artifact. Both are conveniences beside the program `cairn`, which does all
the work: nothing here is needed to run a pipeline.
"""

from .errors import (
    BinaryNotFound,
    CairnError,
    EnvironmentFailed,
    Interrupted,
    InvalidPipeline,
    NotInStep,
    TaskFailed,
    UsageError,
)
from .project import Artifact, Graph, Project, Run, Runs, artifact, run
from .step import Params, checkpoint, in_step, inputs, log_metrics, outputs, params

__all__ = [
    "Artifact",
    "BinaryNotFound",
    "CairnError",
    "EnvironmentFailed",
    "Graph",
    "Interrupted",
    "InvalidPipeline",
    "NotInStep",
    "Params",
    "Project",
    "Run",
    "Runs",
    "TaskFailed",
    "UsageError",
    "artifact",
    "checkpoint",
    "in_step",
    "inputs",
    "log_metrics",
    "outputs",
    "params",
    "run",
]
