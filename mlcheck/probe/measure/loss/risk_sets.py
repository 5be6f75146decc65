"""Whom a Cox model's loss compares an event with, read off its derivatives.

By the score s of a censored sample the derivative is exp(s) times a sum over the events whose risk set has it in. That
sum, in the order by which risk sets are made, changes at every event and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.compared_by_hand import has_one_a_sample
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.probe.measure.validation.event_metrics import flag_of_events
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

FEW = 8
_ROUNDING = 1e-4
_NONE = "no loss asks of events how their score stands among others"


@dataclass(frozen=True, slots=True)
class RiskSets:
    """Whether those compared with an event are `later` ones, `earlier` ones, or go by their place in the `batch`.

    `flag` is the value of `event` that the loss takes for one, `evaluated` that by which a metric of the evaluation is
    computed, where that is seen.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    among: Literal["later", "earlier", "batch"]
    time: str
    event: str
    samples: int
    censored: int
    place: Location
    flag: bool = True
    evaluated: bool | None = None

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & {"logcumsumexp", "cumsum", "logsumexp", "exp"} else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch = first_batches(trial, 1)[0]
        fields = {
            name: leaf.detach().cpu().double().flatten() for name, leaf in leaves(batch) if has_one_a_sample(leaf)
        }
        events = {name: field for name, field in fields.items() if _is_yes_or_no(field)}
        times = {name: field for name, field in fields.items() if len(set(field.tolist())) > len(field) / 2}
        if not events or not times:
            raise NotMeasured(_NONE)
        for (event, ended), (time, until) in product(events.items(), times.items()):
            for scores, derivatives, place in _derivatives(trial, batch, len(ended)):
                for sign, flag in product((1.0, -1.0), (True, False)):
                    happened = (ended > 0) == flag
                    if among := _among(happened, until, sign * derivatives / (sign * scores).exp()):
                        names = part_of("batch", time), part_of("batch", event)
                        evaluated = flag_of_events(trial, event, time)
                        return cls(among, *names, len(ended), int((~happened).sum()), place, flag, evaluated)
        raise NotMeasured(_NONE)


def _is_yes_or_no(field: Tensor) -> bool:
    return bool(((field == 0) | (field == 1)).all()) and FEW <= int((field == 0).sum()) <= len(field) - FEW


def _derivatives(trial: Trial, batch: Any, samples: int) -> Iterator[tuple[Tensor, Tensor, Location]]:
    """Of what backward is called on, by each output of one number a sample."""
    outputs: list[Tensor] = []
    found: list[tuple[Tensor, Tensor]] = []

    def keep(output: Any) -> Any:
        outputs.extend(one for _, one in leaves(output) if one.requires_grad and one.numel() == samples)
        return output

    def look(root: Tensor) -> None:
        for one, by in zip(outputs, torch.autograd.grad(root.sum(), outputs, retain_graph=True, allow_unused=True)):
            if by is not None:
                found.append((one.detach().cpu().double().flatten(), by.cpu().double().flatten()))

    with restored(trial), stilled(trial), ModuleWatch(reply=keep), GradientWatch([], look) as watch:
        seed_all(0)
        trial.train_step(copied(batch), 0)
    for scores, by in found:
        yield scores, by, watch.backwards[0].place


def _among(ended: Tensor, until: Tensor, sums: Tensor) -> Literal["later", "earlier", "batch"] | None:
    """None where the sums of the censored samples do not go by events, in any of the orders."""
    places = torch.arange(len(until), dtype=torch.float64)
    in_time = _rises(ended, until, sums)
    if in_time:
        return "later" if in_time > 0 else "earlier"
    steps = until.diff()
    sorted_already = bool((steps >= 0).all() or (steps <= 0).all())
    return "batch" if not sorted_already and _rises(ended, places, sums) else None


def _rises(ended: Tensor, along: Tensor, sums: Tensor) -> int:
    """1 where the sums rise with each event and nowhere else, -1 where they fall so, 0 else."""
    order = along.argsort()
    events, sums, along = ended[order], sums[order], along[order]
    passed, values, at = events.long().cumsum(0)[~events], sums[~events], along[~events]
    different = at.diff() > 0  # of one time, or of none between, they may stand in either order
    more, change = passed.diff() > 0, values.diff()
    large = values.abs().amax()
    if not bool(values.isfinite().all()) or not float(large) or bool((values < -_ROUNDING * large).any()):
        return 0
    moves = change.abs() > _ROUNDING * large * 1e-2
    if int(more.sum()) < FEW // 2 or int((~more).sum()) < 1 or not bool((moves == more)[different].all()):
        return 0
    signs = set(change[moves & different].sign().tolist())
    return int(signs.pop()) if len(signs) == 1 else 0
