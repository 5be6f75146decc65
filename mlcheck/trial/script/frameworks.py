"""What the loops of frameworks need to be followed like those that a script has written itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

_TRAINERS = ("lightning", "pytorch_lightning", "transformers")


def loaders_of_their_own() -> Iterator[type]:
    """Accelerate's loaders, once it is imported. They go over a DataLoader inside, and fetch one batch ahead of it:
    whoever is to give them batches must stand outside."""
    module = sys.modules.get("accelerate.data_loader")
    for kind in list(vars(module).values()) if module else ():
        if isinstance(kind, type) and hasattr(kind, "end") and "__iter__" in vars(kind):
            yield kind


def plain(loader: Any) -> Any:
    """The DataLoader inside."""
    return getattr(loader, "base_dataloader", loader)


def left_early(loader: Any) -> None:
    """Tell a loader that keeps account of who iterates over it that this pass is over."""
    if hasattr(loader, "base_dataloader") and hasattr(loader, "end"):
        loader.end()


def evaluate_after(batches: int) -> None:
    """Let the Trainer that is fitting, if there is one, evaluate after so many batches: its epoch is cut short then."""
    if not any(name in sys.modules for name in _TRAINERS):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if any(base.__name__ == "Trainer" for base in type(owner).__mro__):
            _hasten(owner, batches)
        frame = frame.f_back


def _hasten(trainer: Any, batches: int) -> None:
    every = getattr(trainer, "val_check_batch", None)
    if isinstance(every, int | float):  # Lightning's; infinite for data without a length
        trainer.val_check_batch = min(every, batches)
        trainer.check_val_every_n_epoch = trainer.check_val_every_n_epoch and 1
    state: Any = getattr(trainer, "state", None)
    if getattr(state, "eval_steps", None):  # Transformers'
        state.eval_steps = min(state.eval_steps, batches)
