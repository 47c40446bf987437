"""A callback for Hugging Face's Trainer: what it logs becomes the step's curves.

    trainer = Trainer(…, callbacks=[CairnCallback()])

The step says `series: log.jsonl`, and `metrics: metrics.json` for the numbers of the end.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from transformers import TrainerCallback

from .step import log_metrics


class CairnCallback(TrainerCallback):  # type: ignore[misc]
    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        numbers = {k: v for k, v in (logs or {}).items() if isinstance(v, (int, float))}
        log_metrics(numbers, step=state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and state.best_metric is not None:
            log_metrics(best_metric=state.best_metric)

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Optional[Dict[str, Any]] = None,
        **_: Any,
    ) -> None:
        if state.is_world_process_zero:
            log_metrics({k: v for k, v in (metrics or {}).items() if isinstance(v, (int, float))})
