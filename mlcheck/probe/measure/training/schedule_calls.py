"""When a program steps its schedulers: after every batch, every few batches, or at the end of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import Clock, inconclusive, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.simplified import replaced
from mlcheck.trial.trial import Trial

FEW = 12
SHORTEST = 3
MOST = 64


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often a scheduler is stepped: `calls` after every `every` batches, and `per_epoch` at an epoch's end.

    `supposed` says that no call was seen, and that once an epoch is what is left.
    """

    calls: int = 0
    every: int = 1
    per_epoch: int = 0
    supposed: bool = False


def planned_schedulers(trial: Trial) -> dict[str, Any]:
    """Those whose course is fixed, without the parts of others. Raises NotMeasured where there is none."""
    if not trial.schedulers:
        raise NotMeasured("the program has no learning-rate scheduler that mlcheck knows of")
    parts = {id(part) for one in trial.schedulers.values() for part in getattr(one, "_schedulers", ())}
    whole = {name: one for name, one in trial.schedulers.items() if id(one) not in parts}
    fixed = {name: one for name, one in whole.items() if not isinstance(one, ReduceLROnPlateau)}
    if not fixed:
        raise NotMeasured("the schedule follows the validation metric, so its course cannot be planned")
    return fixed


def rhythms(trial: Trial, schedulers: Mapping[str, Any], epoch: int | None, clock: Clock) -> dict[str, Rhythm]:
    """Runs a few steps that change no weight, over the end of an epoch where that is near or can be asked for."""
    if epoch is not None and epoch < SHORTEST:
        raise inconclusive(f"an epoch of {plural(epoch, 'batch')} is too short to tell a batch's step from an epoch's")
    counts: dict[str, list[int]] = {name: [] for name in schedulers}
    within = min(epoch - 1, FEW) if epoch else FEW
    near = epoch is not None and epoch <= MOST
    asked = [*range(within), *range(within, (epoch or 0) + 1)] if near else [*range(within), *_end_of(epoch)]
    with counted(schedulers) as calls:
        batches = repeated_batches(trial)
        for index in asked:
            trial.train_step(next(batches), index)
            for name in schedulers:
                counts[name].append(calls[name])
            if not clock.left():
                raise inconclusive("there was no time to see when the schedule is stepped")
    return {name: _rhythm(seen, within, len(asked)) for name, seen in counts.items()}


def _end_of(epoch: int | None) -> list[int]:
    """The last batch of a far epoch and the first of the next: an adapter that counts batches ends it there."""
    return [epoch - 1, epoch] if epoch else []


@contextmanager
def counted(schedulers: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Within, calls of `step` are counted by name, and change nothing. Raises NotMeasured for one with an argument."""
    calls = dict.fromkeys(schedulers, 0)

    def stepping(name: str) -> Any:
        def step(*args: Any, **kwargs: Any) -> None:
            if args or kwargs:
                raise inconclusive(f"`{name}` is stepped with an argument: its course cannot be planned")
            calls[name] += 1

        return step

    with ExitStack() as stack:
        for name, scheduler in schedulers.items():
            stack.enter_context(replaced(scheduler, "step", stepping(name)))
        yield calls


def _rhythm(seen: list[int], within: int, steps: int) -> Rhythm:
    """From the number of calls after each step; the first `within` lie inside an epoch."""
    inside = [after - before for before, after in zip([0, *seen[: within - 1]], seen[:within])]
    called = [place for place, count in enumerate(inside) if count]
    if not called:
        late = seen[-1] if seen else 0
        return Rhythm(per_epoch=late) if late else Rhythm(per_epoch=1, supposed=True)
    every = called[0] + 1
    regular = called == list(range(every - 1, within, every)) and len({inside[place] for place in called}) == 1
    if not regular or (len(called) < 2 and every > 1):
        raise inconclusive(f"the schedule is stepped irregularly in the first {within} batches")
    calls = inside[called[0]]
    return Rhythm(calls, every, max(0, seen[-1] - calls * steps) if every == 1 else 0)
