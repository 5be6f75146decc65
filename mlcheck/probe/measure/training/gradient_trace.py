"""What happened to the gradient of one parameter, arrival by arrival."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mlcheck.core.finding import Location
from mlcheck.probe.measure.training.extents import Extent


@dataclass(slots=True)
class GradientTrace:
    """What happened to one parameter's gradient.

    `arrivals` counts accumulations, `nonzero` those that were not all zeros, `largest` is their largest element by
    magnitude. `applied` counts optimizer steps
    that had a gradient to apply; `reused` those that applied it on top of one already applied; `lost` those that
    found a gradient cleared after it had arrived; `foreign` those that applied one left over from another
    optimizer's loss. `discarded` counts arrivals that the same line of an earlier batch had made and that were cleared
    unused. `carried` counts those that came upon what an earlier batch had left. `twice` counts steps that applied what
    another optimizer had just applied. `rate` is the highest learning rate of the steps.
    """

    arrivals: int = 0
    nonzero: int = 0
    largest: float = 0.0
    applied: int = 0
    reused: int = 0
    lost: int = 0
    discarded: int = 0
    carried: int = 0
    foreign: int = 0
    twice: int = 0
    steps: int = 0
    rate: float = 0.0
    changed: bool = False
    used: bool = False
    waiting: bool = False
    turn: int = 0
    came: tuple[int, Location] = (0, Location())
    since: set[tuple[int, int]] = field(default_factory=set)


class Arrival(NamedTuple):
    """A gradient that came to a parameter, and what had been there before, of both the smallest and largest element.

    `now` is the batch and the line that called backward, `since` counts calls of backward and optimizer steps.
    """

    trace: GradientTrace
    before: Extent | None
    gradient: Extent | None
    now: tuple[int, Location]
    since: tuple[int, int]

    def settle(self, before: float, largest: float) -> None:
        """Take down what came, where the largest elements by magnitude are these."""
        trace = self.trace
        if not before:
            turn, place = trace.came
            trace.discarded += trace.waiting and turn < self.now[0] and place == self.now[1]
            trace.used = trace.waiting = False
            trace.since.clear()
        trace.carried += before > 0 and bool(trace.arrivals) and trace.turn < self.now[0]
        trace.turn = self.now[0]
        trace.arrivals += 1
        if largest:
            trace.largest = max(trace.largest, largest)
            trace.nonzero += 1
            trace.waiting = True
            trace.came = self.now
            trace.since.add(self.since)
