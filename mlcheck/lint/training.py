"""What happened around the training step: optimizers, what cleared their gradients, schedulers, copies of weights."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.values import Select

if TYPE_CHECKING:
    from mlcheck.lint.facts import Facts, Forward, Grads, Loop, Place, Step, Turn
    from mlcheck.lint.pytorch.mixing import Mixed
    from mlcheck.lint.values import Value


class Choice(NamedTuple):
    """How a path answered a test that counts batches, as `(i + 1) % n == 0`.

    `only`: the test asks for nothing else, such as whether this is the last batch. `earlier`: how the test was answered
    that lets the optimizer step, where this is one after it, such as when to log.
    """

    spot: tuple[str, int, int]
    holds: bool
    only: bool
    earlier: Choice | None = None


class Autocast(NamedTuple):
    """Mixed precision: `on`, `off` or `unknown`, the device (""  where not known), and where it was switched."""

    kind: str
    device: str
    place: Place


class Bypass(NamedTuple):
    """`module.forward(...)`: a call that leaves out the hooks of the module."""

    place: Place
    name: str


@dataclass(eq=False, slots=True)
class Optimizer:
    """An optimizer constructed in the program. `owners` are the modules whose parameters it was given, if known.

    `around`: they and the modules that they are parts of; `always`: it is made in every turn of the loop around it.
    `handed_on`: code that is not known has it, or it was given more parameters. `name` is the variable it was in when
    gradients first reached it.
    """

    place: Place
    key: Hashable
    type: str
    owners: frozenset[Hashable]
    when: Turn
    always: bool
    handed_on: bool = False
    name: str = ""
    around: frozenset[Hashable] = frozenset()


@dataclass(eq=False, slots=True)
class Clearing:
    """Gradients set to zero, and those that were there before. `always`: under no condition in their loop."""

    place: Place
    key: Hashable
    grads: frozenset[Grads]
    when: Turn
    always: bool


@dataclass(eq=False, slots=True)
class Scheduler:
    """A learning-rate scheduler, constructed in the program."""

    place: Place
    key: Hashable
    type: str
    optimizer: Value | None
    when: Turn
    arguments: dict[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]

    @property
    def optimizers(self) -> list[Value]:
        """The optimizers it may be given, where conditions tell them apart."""
        found: list[Value] = []
        todo = [self.optimizer]
        while todo:
            one = todo.pop()
            if isinstance(one, Select):
                todo += [one.then, one.other]
            elif one is not None:
                found.append(one)
        return found


@dataclass(eq=False, slots=True)
class SchedulerStep:
    """`scheduler.step()` with that many arguments.

    `always`: nothing was taken for granted since the outermost loop's iteration began; `in_turn`: since that of the
    innermost; `decided` are the conditions on its path; `optimizer_stepped`: its optimizer may have stepped before.
    """

    place: Place
    scheduler: Scheduler
    given: int
    when: Turn
    always: bool
    in_turn: bool
    optimizer_stepped: bool
    decided: frozenset[Hashable] = frozenset()


@dataclass(eq=False, slots=True)
class Snapshot:
    """Weights kept in `target` (under `item` of a dictionary) that go on changing: a state dict, or the model itself.

    `within` is the function, or module, around the assignment; `trained_on`: the model was trained since;
    `by_helper`: a call gave it back in one case, and in the others what the variable held before.
    """

    place: Place
    kind: str
    target: ast.Name | ast.Attribute
    item: str
    within: ast.AST
    when: Turn
    trained_on: bool = False
    by_helper: bool = False


@dataclass(eq=False, slots=True)
class SelfCopy:
    """The weights of a module are copied to, or averaged with, those of the same module."""

    place: Place


@dataclass(eq=False, slots=True)
class Replaced:
    """A module with parameters of its own became part of one, `within`, that an optimizer had been given before.

    `whole`: where that is a list or dictionary of modules, it and what it is a part of.
    """

    place: Place
    name: str
    key: Hashable
    optimizer: Optimizer
    within: Hashable
    whole: frozenset[Hashable] = frozenset()


@dataclass(eq=False, slots=True)
class Unheld:
    """A module made in the program got gradients, and no optimizer that existed then held its parameters.

    `beside` are the modules that got theirs in the same backward pass.
    """

    place: Place
    name: str
    keys: frozenset[Hashable]
    optimizers: tuple[Hashable, ...]
    loop: Loop | None
    beside: frozenset[Hashable]


@dataclass(eq=False, slots=True)
class Freeze:
    """`requires_grad` set for the parameters of `owners`, or for some that were chosen among them.

    `assumed` are the conditions it stands under.
    """

    place: Place
    owners: frozenset[Hashable]
    chosen: bool
    loop: Loop | None
    stamp: int
    assumed: frozenset[Hashable]


@dataclass(eq=False, slots=True)
class Thawed:
    """Parameters were set free after `optimizer` had been made of those that were free then."""

    place: Place
    stamp: int
    optimizer: Optimizer


@dataclass(eq=False, slots=True)
class FrozenHeld:
    """Everything that `optimizer` holds was frozen at `place` before it was made."""

    place: Place
    optimizer: Optimizer


@dataclass(eq=False, slots=True)
class Lost:
    """A module of an optimizer whose result was cut off at `place` before it reached the loss of that step."""

    place: Place
    forward: Forward
    backward: Place


@dataclass(eq=False, slots=True)
class Kept:
    """A loss was added to `name`, or put into it, with the graph of these module calls behind it.

    `what` is the loss as written, `loss` its value; `trained`: a backward ran on it, before or later."""

    place: Place
    name: str
    calls: frozenset[Forward]
    what: str
    trained: bool
    loss: Value | None = None


@dataclass(slots=True)
class Training:
    """Facts of the training loop, each list in the order in which things were seen."""

    optimizers: dict[Hashable, Optimizer] = field(default_factory=dict)
    clearings: list[Clearing] = field(default_factory=list)
    schedulers: dict[Hashable, Scheduler] = field(default_factory=dict)
    scheduler_steps: list[SchedulerStep] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    self_copies: list[SelfCopy] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    unheld: list[Unheld] = field(default_factory=list)
    unfrozen: list[tuple[Place, Place]] = field(default_factory=list)
    walked: set[Hashable] = field(default_factory=set)
    lost: list[Lost] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    mixed: list[Mixed] = field(default_factory=list)
    thawed: list[Thawed] = field(default_factory=list)
    frozen_in_vain: list[Place] = field(default_factory=list)
    frozen_held: list[FrozenHeld] = field(default_factory=list)


def steps_by_choice(facts: Facts) -> dict[tuple[Hashable, tuple[str, int, int], bool], Step]:
    """Steps behind a test that counts batches, by the optimizer, the test's place and its answer."""
    return {
        (step.key, grads.choice.spot, grads.choice.holds): step
        for step in facts.steps
        for grads in step.grads
        if grads.choice is not None
    }
