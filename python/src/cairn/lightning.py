"""A logger for Lightning: what a module logs becomes the step's curves.

    trainer = Trainer(…, logger=CairnLogger())

The step says `series: log.jsonl`. Hyperparameters are the step's params, which are on record
already.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

try:
    from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
    from lightning.pytorch.utilities.rank_zero import rank_zero_only
except ImportError:
    from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment
    from pytorch_lightning.utilities.rank_zero import rank_zero_only

from .step import log_metrics


class CairnLogger(Logger):  # type: ignore[misc]
    @property
    def name(self) -> str:
        return "cairn"

    @property
    def version(self) -> str:
        return ""

    @property
    @rank_zero_experiment  # type: ignore[untyped-decorator]
    def experiment(self) -> None:
        """There is none: log_metrics() writes a file."""

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        """The step's params are in its record."""

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Dict[str, Any], step: Optional[int] = None) -> None:
        log_metrics(metrics, step=0 if step is None else step)
