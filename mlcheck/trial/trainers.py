"""Makes a program of a function that returns a Trainer of Hugging Face's Transformers, or one derived from it.

Nothing of it is imitated: its own `train()` and then `evaluate()` run like a script, one batch at a time. What it
would send or save elsewhere is left out: checkpoints, the hub, and callbacks that report to other services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_PACKAGE = "transformers"


def is_trainer(value: Any) -> bool:
    return any(base.__name__ == "Trainer" and _is_theirs(base) for base in type(value).__mro__)


@dataclass(frozen=True)
class Training:
    """What the Trainer does that `make` returns, from its first batch to the evaluation after its last."""

    name: str
    make: Callable[..., Any]
    arguments: Mapping[str, Any]

    @property
    def change(self) -> str:
        return f"change what {self.name} makes"

    def run(self) -> None:
        trainer = self.make(**self.arguments)
        trainer.args.save_strategy = type(trainer.args.save_strategy)("no")
        trainer.args.push_to_hub = False
        trainer.args.disable_tqdm = True
        for callback in list(trainer.callback_handler.callbacks):
            if _reports(callback):
                trainer.remove_callback(callback)
        trainer.train()
        if trainer.eval_dataset is not None:
            trainer.evaluate()


def _reports(callback: Any) -> bool:
    """Whether it tells a tracker or prints a progress bar; those that steer training stay."""
    kind = type(callback)
    return kind.__module__.startswith(f"{_PACKAGE}.integrations") or kind.__name__ in {
        "ProgressCallback",
        "NotebookProgressCallback",
        "PrinterCallback",
    }


def _is_theirs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == _PACKAGE
