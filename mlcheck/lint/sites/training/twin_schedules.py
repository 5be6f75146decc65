"""Schedules beside one another, of which one was given the optimizer of the other."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import SCHEDULERS, optimizers

_KINDS = frozenset(["sched", "scheduler", "schedule", "lr", "opt", "optim", "optimizer", "optimiser", "schd"])


class Mistaken(NamedTuple):
    """The schedule `name` moves `given`; the optimizer `lost`, made by the call `left`, has no schedule."""

    call: Call
    name: str
    given: str
    left: Call
    lost: str


def given_another(sites: Sites) -> Iterator[Mistaken]:
    """`sched_d = StepLR(opt_g, 30)` beside `sched_g = StepLR(opt_g, 30)`, where `opt_d` has no schedule."""
    made = [(call, name) for call in sites.once(optimizers) for name in call.file.names_given(call.node)[:1]]
    for file in sites.mentioning(["lr_scheduler"]) if len(made) > 1 else ():
        calls = [call for call in file.calls(*SCHEDULERS) if len(file.names_given(call.node)) == 1]
        moved = [(call, last_name(call.argument("optimizer", 0)), file.names_given(call.node)[0]) for call in calls]
        for call, given, name in moved:
            own = [other for other, optimizer in _moved_beside(moved, call) if optimizer == given and other != name]
            left = [
                (other, optimizer)
                for other, optimizer in made
                if other.file is file and other.function is call.function and _tag(optimizer) == _tag(name)
            ]
            if not _tag(name) or len(left) != 1 or not any(_tag(other) == _tag(given) for other in own):
                continue
            lost = left[0][1]
            if lost != given and lost not in [optimizer for _, optimizer in _moved_beside(moved, call)]:
                yield Mistaken(call, name, given, *left[0])


def _moved_beside(moved: list[tuple[Call, str, str]], beside: Call) -> list[tuple[str, str]]:
    """The schedules of the same function with the optimizers they move."""
    return [(name, optimizer) for call, optimizer, name in moved if call.function is beside.function]


def _tag(name: str) -> frozenset[str]:
    """`d` of `sched_d`, `opt_d` and `d_optimizer`."""
    return frozenset(name.lower().split("_")) - _KINDS
