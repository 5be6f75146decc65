"""Copies of a model that follow it (an exponential moving average, a teacher, a target network), over a few steps.

A copy is found by its tensors: those of the user's objects that have the names and shapes of a model's parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.following import Copy, Follow
from mlcheck.probe.measure.model.unread_copies import is_saved, names_one_reader
from mlcheck.probe.measure.program_text import loaded_text, names_after_construction, program_text
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import cells_of
from mlcheck.trial.tensors import TensorCell
from mlcheck.trial.trial import Trial

_STEPS, _MORE_STEPS = 6, 24
_MORE_SECONDS = 3.0
_SEED = 5
_WORDS = "load|set|copy|deep|lerp|mul|add|update|sync|swap|average|polyak|soft|hard|track|refresh|follow|ema|_?foreach"
_WRITES = re.compile(rf"({_WORDS})(_.*|copy)?|.*_update|data")


@dataclass(frozen=True, slots=True)
class AveragedCopies:
    """The copies of the trial's models, watched over `steps` training steps and one evaluation.

    `aliases` are attributes that hold the model's own weights, all of them, in a module, `shallow` those of them that
    copy.copy made: another module, with the very parts of the model.
    `settled` says that no function but `__init__` names anything that writes weights, such as `load_state_dict`.
    `straight` says that a framework evaluates right after steps, with nothing of the user's in between.
    `unread` are copies that average, and that nothing but what averages them reads; `unsaved` those of them that are in
    no checkpoint. `metrics` are what the evaluation reports.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    copies: tuple[Copy, ...]
    steps: int
    straight: bool
    place: Location
    aliases: tuple[str, ...] = ()
    shallow: tuple[str, ...] = ()
    settled: bool = False
    unread: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        follows, held = _found(trial), dict(_aliases(trial))
        aliases, shallow = tuple(held), tuple(name for name, module in held.items() if _is_shallow(module, trial))
        if not follows and aliases:
            return cls((), 0, False, Location(*trial.entry), aliases, shallow)
        if not follows:
            raise NotMeasured("there is no second copy of the model's weights")
        seed_all(_SEED)
        clock, more, steps = Clock(seconds / 2), Clock(min(_MORE_SECONDS, seconds / 2)), 0
        for batch in repeated_batches(trial):
            with _after_each_update(follows), _called(trial, follows, taught=True):
                trial.train_step(copied(batch), steps)
            steps += 1
            tensors = _tensors(trial)
            for follow in follows:
                follow.stepped(tensors)
            going_on = more.left() and steps < _MORE_STEPS and any(follow.averages for follow in follows)
            if not clock.left() or (steps >= _STEPS and not going_on):
                break
        metrics = _evaluate(trial, follows)
        told = tuple(follow.told() for follow in follows)
        unread = _unread(trial, told) if metrics and trial.saved is not None else ()
        return cls(
            told,
            steps,
            trial.saved is not None,
            Location(*trial.entry),
            aliases,
            shallow,
            _is_settled(trial),
            unread,
            tuple(name for name in unread if not is_saved(trial, _below(_tensors(trial), name))),
            metrics,
        )


def _unread(trial: Trial, copies: tuple[Copy, ...]) -> tuple[str, ...]:
    kept = [copy for copy in copies if any(0 < decay < 1 for decay in copy.decays) and not (copy.read or copy.taught)]
    text = loaded_text(trial) if kept else ""
    return tuple(copy.name for copy in kept if names_one_reader(text, copy.name))


def _below(tensors: Mapping[str, Tensor], prefix: str) -> list[Tensor]:
    return [tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")]


def _is_settled(trial: Trial) -> bool:
    names = names_after_construction(program_text(trial))
    return names is not None and not any(map(_WRITES.fullmatch, names))


@contextmanager
def _after_each_update(follows: list[Follow]) -> Iterator[None]:
    """Within, the model is looked at right after each optimizer's step, before the program goes on."""

    def updated(*_: object) -> None:
        for follow in follows:
            follow.updated()

    handle = register_optimizer_step_post_hook(updated)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _called(trial: Trial, follows: list[Follow], taught: bool = False) -> Iterator[None]:
    """Within, it is noted which copies are called."""
    hooks = [hook for follow in follows for hook in follow.watch(trial.objects, taught)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tensors(trial: Trial) -> dict[str, Tensor]:
    """All tensors of the trial's objects by name. A copy may be made anew at each step, so they are looked up again."""
    return {cell.name: cell.tensor for cell in cells_of(trial) if isinstance(cell, TensorCell)}


def _found(trial: Trial) -> list[Follow]:
    groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
    trained = {id(weight) for group in groups for weight in group["params"]}
    tensors = _tensors(trial)
    follows: dict[str, Follow] = {}
    for model in trial.models.values():
        own = dict(model.named_parameters())
        if not any(id(weight) in trained for weight in own.values()):
            continue
        mine = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
        for prefix in _prefixes(tensors, next(iter(own))):
            copies = {name: tensors.get(f"{prefix}.{name}") for name in own}
            fits = all(copy is not None and copy.shape == own[name].shape for name, copy in copies.items())
            if fits and not any(id(copy) in mine or id(copy) in trained for copy in copies.values()):
                follows.setdefault(prefix, Follow(prefix, model, tensors))
    return list(follows.values())


def _is_shallow(module: nn.Module, trial: Trial) -> bool:
    return any(module is not model and module._modules is model._modules for model in trial.models.values())


def _aliases(trial: Trial) -> Iterator[tuple[str, nn.Module]]:
    """Attributes of the user's objects that are a trained model, or a module made of its very weights."""
    groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
    trained = {id(weight) for group in groups for weight in group["params"]}
    models = [{id(weight) for weight in model.parameters()} for model in trial.models.values()]
    for owner in trial.objects:
        for name, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
            weights = {id(weight) for weight in value.parameters()} if isinstance(value, nn.Module) else set()
            if weights & trained and weights in models:
                yield f"{type(owner).__name__}.{name}", value


def _prefixes(tensors: Mapping[str, Tensor], first: str) -> list[str]:
    return [name[: -len(first) - 1] for name in tensors if name.endswith(f".{first}")]


def _evaluate(trial: Trial, follows: list[Follow]) -> tuple[str, ...]:
    """One evaluation, which shows whether a copy is used: the names of what it reports."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return ()
    batch = next(iter(trial.validation_batches()), None)
    if batch is None:
        return ()
    with _called(trial, follows):
        reported = trial.evaluate_step(copied(batch))
    tensors = _tensors(trial)
    for follow in follows:
        follow.evaluated(tensors)
    return tuple(map(str, reported or ()))
