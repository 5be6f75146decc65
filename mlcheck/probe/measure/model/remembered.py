"""What a model keeps from one call to the next, by which its answer to the same batch changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.data import RandomSampler

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.model.exchanges import SINGLE_PRECISION_ROUNDING, difference, reordered
from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.model.row_states import holds_rows, may_hold_rows
from mlcheck.probe.measure.modules import Arguments, ModuleWatch
from mlcheck.probe.measure.tree import leaves, rows
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class Remembered:
    """`kept` names the tensor that has a place for each row of the batch before; empty where none was found.

    `shuffled` says that the rows of the next batch are drawn anew, and have nothing to do with these; `carried` that
    the program's own loop leaves it in place from one training step to the next.
    """

    kept: str
    shuffled: bool
    carried: bool

    @classmethod
    def of(cls, trial: Trial, call: CapturedCall) -> Self | None:
        """None for a model that gives the same answer again, after another batch, its noise being torch's.

        And for one that takes no other order of its rows.
        """
        call.replay()
        once, left = call.replay(), {name: tensor.clone() for name, tensor in held(call)}
        try:
            call.replay(reordered((call.args, call.kwargs), torch.arange(call.rows).flip(0)))
        except Exception:  # rows that have to be sorted, say
            return None
        again = call.replay()
        if all(difference(one, other) <= SINGLE_PRECISION_ROUNDING for one, other in zip(once, again)):
            return None
        changed = [
            name
            for name, tensor in held(call)
            if may_hold_rows(tensor, call.rows) and name in left and not same_bits(left[name], tensor)
        ]
        with restored(trial):  # what fewer rows leave behind may fit no batch of the program's own
            changed = _by_row(call, changed) if changed else []
        sampler = getattr(trial.loaders.get("training"), "sampler", None)
        carried = bool(changed) and _is_carried(trial, call, changed[0])
        return cls(changed[0] if changed else "", isinstance(sampler, RandomSampler), carried)


def _by_row(call: CapturedCall, names: list[str]) -> list[str]:
    """Those that a call with one row less leaves as they are where that row was, or gives another shape."""
    before = {name: tensor.clone() for name, tensor in held(call)}
    try:
        call.replay(rows((call.args, call.kwargs), torch.arange(call.rows - 1)))
    except Exception:  # as many rows as before, or none
        return names
    after = dict(held(call))
    return [name for name in names if name not in after or holds_rows(before[name], after[name], call.rows)]


def held(call: CapturedCall) -> Iterator[tuple[str, Tensor]]:
    """The tensors that modules hold and that are no parameters, by their paths."""
    for path, module in call.module.named_modules():
        for name, value in (*module.named_buffers(recurse=False), *vars(module).items()):
            if not name.startswith("_"):
                for _, tensor in leaves(value):
                    yield f"{path}.{name}".lstrip("."), tensor.detach()


def _is_carried(trial: Trial, call: CapturedCall, name: str) -> bool:
    """Whether the first call of the second training step finds what the first step left."""
    found: list[Tensor | None] = []

    def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        if module is call.module:
            found.append(_now(call, name))
        return args, kwargs

    batches = first_batches(trial, 2)
    trial.train_step(batches[0], 0)
    left = _now(call, name)
    with ModuleWatch(look):
        trial.train_step(batches[-1], 1)
    return left is not None and bool(found) and found[0] is not None and same_bits(found[0], left)


def _now(call: CapturedCall, name: str) -> Tensor | None:
    return next((tensor.clone() for path, tensor in held(call) if path == name), None)
