"""What happened around the training step: optimizers, what cleared their gradients, schedulers, copies of weights."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mlcheck.lint.facts import Facts, Grads, Place, Step, Turn
    from mlcheck.lint.values import Value


class Choice(NamedTuple):
    """How a path answered a test that counts batches, as `(i + 1) % n == 0`.

    `only`: the test asks for nothing else, such as whether this is the last batch.
    """

    spot: tuple[str, int, int]
    holds: bool
    only: bool


@dataclass(eq=False, slots=True)
class Optimizer:
    """An optimizer constructed in the program. `owners` are the modules whose parameters it was given, if known.

    `always`: it is made in every turn of the loop around it. `handed_on`: code that is not known has it.
    """

    place: Place
    key: Hashable
    type: str
    owners: frozenset[Hashable]
    when: Turn
    always: bool
    handed_on: bool = False


@dataclass(eq=False, slots=True)
class Clearing:
    """Gradients set to zero, and those that were there before."""

    place: Place
    key: Hashable
    grads: frozenset[Grads]
    when: Turn


@dataclass(eq=False, slots=True)
class Scheduler:
    """A learning-rate scheduler, constructed in the program."""

    place: Place
    key: Hashable
    type: str
    optimizer: Value | None
    arguments: dict[str, Value]
    when: Turn


@dataclass(eq=False, slots=True)
class SchedulerStep:
    """`scheduler.step()`. `optimizer_stepped`: whether its optimizer may have stepped since it was made."""

    place: Place
    scheduler: Scheduler
    given: int
    when: Turn
    always: bool
    optimizer_stepped: bool


@dataclass(slots=True)
class Training:
    """Facts of the training loop, each list in the order in which things were seen."""

    optimizers: dict[Hashable, Optimizer] = field(default_factory=dict)
    clearings: list[Clearing] = field(default_factory=list)
    schedulers: dict[Hashable, Scheduler] = field(default_factory=dict)
    scheduler_steps: list[SchedulerStep] = field(default_factory=list)


def steps_by_choice(facts: Facts) -> dict[tuple[Hashable, tuple[str, int, int], bool], Step]:
    """Steps behind a test that counts batches, by the optimizer, the test's place and its answer."""
    return {
        (step.key, grads.choice.spot, grads.choice.holds): step
        for step in facts.steps
        for grads in step.grads
        if grads.choice is not None
    }
