"""One training step on all ranks, in float64, beside the same step of one process on their joined batch.

The mean of the ranks' gradients is the gradient of the joined batch where the loss is a mean over samples
(https://docs.pytorch.org/docs/stable/notes/ddp.html). Where it is not, the weights with which the ranks' gradients
make up that of the joined batch tell why. Dropout and batch statistics are off, as they differ by design.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mlcheck.trial.find import load_trial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.launch import RankJob
from mlcheck.trial.ranks.story import JoinedStep
from mlcheck.trial.reference import in_double, in_float64, joined_batch
from mlcheck.trial.sandbox import restored
from mlcheck.trial.stillness import still
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import NotReached, RejectedConfig, Trial

_SEED = 5
_MOST_TRIED = 64


class _NotComparable(Exception):
    """Why there is nothing to compare."""


def compare(job: RankJob, journal: Journal) -> None:
    """Note the comparison, or why there is none. All ranks call it together, and none leaves early."""
    told, step = "", None
    try:
        step = _Step(load_trial(job.entry, job.options(communicates=True, dtype=torch.float64)))
    except (Exception, NotReached) as error:
        told = error_line(error)
    tolds: list[str] = [""] * distributed.get_world_size()
    distributed.all_gather_object(tolds, told)
    if any(tolds) or step is None:
        journal.note(JoinedStep(error=next(filter(None, tolds))))
        return
    journal.note(step.compared())


class _Step:
    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        modules = (module for model in trial.models.values() for module in model.modules())
        self._wrappers = [module for module in modules if isinstance(module, DistributedDataParallel)]
        if not self._wrappers:
            raise _NotComparable("no model is wrapped in DistributedDataParallel")
        self._batch = in_double(next(iter(trial.train_batches()), None))
        if self._batch is None:
            raise _NotComparable("there is no training batch")

    def compared(self) -> JoinedStep:
        """Each part is done by all ranks or by none, as they wait for one another."""
        batches: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(batches, self._batch)
        try:
            whole = joined_batch(batches)
        except (TypeError, ValueError, RuntimeError) as error:
            return JoinedStep(error=f"the batches of the ranks cannot be joined ({error})")
        with still(self._trial), in_float64():
            averaged, why = self._together(lambda: self._gradient(self._batch, exchange=True))
            alone, alone_why = self._together(lambda: self._gradient(self._batch))
            again, _ = self._together(lambda: self._gradient(self._batch, seed=_SEED + 1))
            joined, joined_why = self._together(lambda: self._gradient(whole))
        why = why or alone_why or joined_why
        if why or averaged is None or alone is None or again is None or joined is None:
            return JoinedStep(error=why or "the step gives no gradient")
        return _compared(averaged, alone, again, joined)

    def _together(self, measure: Any) -> tuple[Tensor | None, str]:
        """What this rank measured, and what went wrong on any."""
        told, found = "", None
        try:
            found = measure()
        except (Exception, NotReached, RejectedConfig) as error:
            told = error_line(error)
        tolds: list[str] = [""] * distributed.get_world_size()
        distributed.all_gather_object(tolds, told)
        return found, next(filter(None, tolds), "")

    def _gradient(self, batch: Any, *, exchange: bool = False, seed: int = _SEED) -> Tensor:
        """What the first optimizer step is given, as one vector; without `exchange` the rank's own."""
        kept: list[Tensor] = []

        def keep(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if not kept:
                weights = [weight for group in optimizer.param_groups for weight in group["params"]]
                grads = [w.grad if w.grad is not None else torch.zeros_like(w) for w in weights]
                kept.append(torch.cat([grad.detach().double().reshape(-1) for grad in grads]))

        with restored(self._trial), ExitStack() as stack:
            handle = register_optimizer_step_pre_hook(keep)
            stack.callback(handle.remove)
            for wrapper in self._wrappers if not exchange else ():
                stack.enter_context(wrapper.no_sync())
            seed_all(seed)
            for index in range(_MOST_TRIED):
                self._trial.train_step(batch, index)
                if kept:
                    return kept[0]
        raise _NotComparable(f"no optimizer step in {_MOST_TRIED} batches")


def _compared(averaged: Tensor, alone: Tensor, again: Tensor, joined: Tensor) -> JoinedStep:
    world = distributed.get_world_size()
    own = [torch.zeros_like(alone) for _ in range(world)]
    distributed.all_gather(own, alone)
    mean = torch.stack(own).mean(0)
    size = float(mean.norm()) or 1.0
    matrix = torch.stack(own, dim=1)
    weights = torch.linalg.lstsq(matrix, joined.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    scale = float(joined.norm()) or 1.0
    return JoinedStep(
        dtype="float64",
        averaged=float((averaged - mean).norm()) / size,
        rest=float((matrix @ weights - joined).norm()) / scale,
        noise=float((again - alone).norm()) / (float(alone.norm()) or 1.0),
        weights=tuple(float(weight) for weight in weights),
    )
