"""Learning-rate schedulers: made, and stepped."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from mlcheck.lint.interpret.certainty import always, decided
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ClassInfo
from mlcheck.lint.pytorch import gradients
from mlcheck.lint.training import Scheduler, SchedulerStep
from mlcheck.lint.values import Object, Symbol, Value, owner_key

_TORCH = "torch.optim.lr_scheduler."
_FACTORIES = ("transformers.get_", "transformers.optimization.get_", "diffusers.optimization.get_")

_WARM = ("num_warmup_steps", "num_training_steps")
_LENGTHS = {"OneCycleLR": ("max_lr", "total_steps", "epochs", "steps_per_epoch"), "CosineAnnealingLR": ("T_max",)}


def make(m: Machine, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], node: ast.AST) -> Object | None:
    """The scheduler that a call of this library function or class makes; None where it makes none."""
    of_torch = name.startswith(_TORCH) and name[len(_TORCH) :][:1].isupper()
    if not of_torch and not (name.startswith(_FACTORIES) and "schedule" in name):
        return None
    made = Object(name, m.fresh(), None, tuple(args), dict(kwargs), m.place(node))
    optimizer = args[0] if args else kwargs.get("optimizer")
    given = {**dict(zip(_in_order(name), args[1:], strict=False)), **kwargs}
    m.facts.training.schedulers[made.id] = Scheduler(m.place(node), made.id, name, optimizer, m.now(), given)
    return made


def derived(m: Machine, made: Object, info: ClassInfo, node: ast.AST) -> None:
    """An object of a project class that is a scheduler of torch, and is stepped as such."""
    bases = {name for name in info.libraries if name.startswith(_TORCH)}
    if not bases or info.find("step") is not None:
        return
    optimizer = next((each for each in (*made.args, *made.kwargs.values()) if gradients.is_optimizer(m, each)), None)
    m.facts.training.schedulers[made.id] = Scheduler(m.place(node), made.id, made.type, optimizer, m.now())


def _in_order(name: str) -> tuple[str, ...]:
    """What may be given by position behind the optimizer, of those that say how long the schedule is."""
    return _WARM if name.endswith("_with_warmup") else _LENGTHS.get(name.removeprefix(_TORCH), ())


def call(
    m: Machine, owner: Object, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], node: ast.AST
) -> Value:
    """A method of a scheduler."""
    scheduler = m.facts.training.schedulers[owner.id]
    if name == "step":
        stepped = any(_may_have_stepped(m, one) for one in scheduler.optimizers)
        given, everywhere = len(args) + len(kwargs), always(m, 0)
        step = SchedulerStep(m.place(node), scheduler, given, m.now(), everywhere, always(m), stepped, decided(m))
        m.facts.training.scheduler_steps.append(step)
    return m.symbol()


def _may_have_stepped(m: Machine, optimizer: Value) -> bool:
    """Whether it took a step for all that is known; of what is called an optimizer, each step was seen."""
    key = owner_key(optimizer)
    known = key in m.facts.training.optimizers
    if isinstance(optimizer, Symbol):
        known = gradients.is_optimizer(m, optimizer)
    return not known or bool(m.store.get(("stepped", key)))


def is_scheduler(m: Machine, value: Object) -> bool:
    return value.id in m.facts.training.schedulers
