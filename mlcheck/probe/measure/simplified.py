"""The user's training with what hinders memorising switched off, or with another optimizer, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from mlcheck.trial.trial import Trial


def learning_rate(trial: Trial) -> float:
    return max((float(group["lr"]) for opt in trial.optimizers.values() for group in opt.param_groups), default=0.0)


def decays(trial: Trial) -> bool:
    return any(group.get("weight_decay") for opt in trial.optimizers.values() for group in opt.param_groups)


def nominal_rate(trial: Trial) -> float:
    """The rate that the schedules are named by: above `learning_rate` where one of them begins lower and warms up."""
    named = (
        _nominal(trial, optimizer, group) for optimizer in trial.optimizers.values() for group in _groups(optimizer)
    )
    return max(map(float, named), default=0.0)


@contextmanager
def unregularised(trial: Trial, decayed: bool = False) -> Iterator[None]:
    """No weight decay, unless `decayed`, no dropout inside fused modules, schedules held at the rate named for them."""
    with ExitStack() as stack:
        for model in trial.models.values():
            for module in model.modules():
                if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
                    stack.enter_context(replaced(module, "dropout", 0.0))
        for scheduler in trial.schedulers.values():
            stack.enter_context(replaced(scheduler, "step", lambda *_, **__: None))
        for optimizer in trial.optimizers.values():
            for group in _groups(optimizer):
                changes: dict[str, Any] = {"weight_decay": 0.0} if "weight_decay" in group and not decayed else {}
                stack.enter_context(_entries(group, {**changes, "lr": _nominal(trial, optimizer, group)}))
        yield


def _groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    return optimizer.param_groups


def _nominal(trial: Trial, optimizer: Optimizer, group: dict[str, Any]) -> Any:
    """A rate as a tensor stays what it is: captured graphs hold it."""
    rate = group["lr"]
    if isinstance(rate, Tensor):
        return rate
    if trial.schedulers:
        return group.get("max_lr", group.get("initial_lr", rate))
    largest = max(float(other["lr"]) for other in _groups(optimizer))
    return rate * max(1.0, _made_with(optimizer) / largest) if largest > 0 else rate


def _made_with(optimizer: Optimizer) -> float:
    """The rate that the program gave to all groups: above theirs where its own loop warms up. 0 where it gave none."""
    given = optimizer.defaults.get("lr", 0.0)
    parameter = signature(type(optimizer)).parameters.get("lr")
    chosen = isinstance(given, int | float) and (parameter is None or given != parameter.default)
    return float(given) if chosen else 0.0


@contextmanager
def stilled(trial: Trial) -> Iterator[None]:
    """The loop runs as before and changes no parameter: its optimizers' and schedulers' steps do nothing."""

    def step(*given: Any, **named: Any) -> Any:
        closure = _closure(given, named)
        return closure() if closure else None

    with ExitStack() as stack:
        for stepping in (*trial.optimizers.values(), *trial.schedulers.values()):
            stack.enter_context(replaced(stepping, "step", step))
        yield


def _closure(given: tuple[Any, ...], named: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Of a call of `step`: schedulers are given a metric there, and optimizers of the user's whatever they take."""
    return next((one for one in (*given[:1], named.get("closure")) if callable(one)), None)


@contextmanager
def without_decay(trial: Trial) -> Iterator[None]:
    """The same optimizers with a weight decay of 0."""
    with ExitStack() as stack:
        for optimizer in trial.optimizers.values():
            for group in optimizer.param_groups:
                if "weight_decay" in group:
                    stack.enter_context(_entries(group, {"weight_decay": 0.0}))
        yield


@contextmanager
def with_rates(trial: Trial, factor: float) -> Iterator[list[float]]:
    """Every learning rate multiplied and held; lists those that the program's own loop would have set meanwhile."""
    asked: list[float] = []
    with ExitStack() as stack:
        for scheduler in trial.schedulers.values():
            stack.enter_context(replaced(scheduler, "step", lambda *_, **__: None))
        for optimizer in trial.optimizers.values():
            rates = [_nominal(trial, optimizer, group) * factor for group in _groups(optimizer)]
            stack.enter_context(_held_rates(optimizer, rates, asked))
        yield asked


class _Held(dict[str, Any]):
    """A parameter group whose learning rate stays what it is; `asked` gets those that it is told to take."""

    def __init__(self, entries: dict[str, Any], asked: list[float]) -> None:
        super().__init__(entries)
        self._asked = asked

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "lr" or name not in self:
            super().__setitem__(name, value)
        else:
            self._asked.append(float(value))


@contextmanager
def _held_rates(optimizer: Optimizer, rates: list[Any], asked: list[float]) -> Iterator[None]:
    before = list(_groups(optimizer))
    held = [_Held({**group, "lr": rate}, asked) for group, rate in zip(before, rates, strict=True)]
    _groups(optimizer)[: len(held)] = held
    try:
        yield
    finally:
        for group, other in zip(before, held, strict=True):
            group.update({name: value for name, value in other.items() if name != "lr"})
        _groups(optimizer)[: len(held)] = before


@contextmanager
def replaced_by_adam(trial: Trial, rate: float) -> Iterator[None]:
    """The user's loop calls its optimizers as before; Adam does the updates."""
    with ExitStack() as stack:
        for optimizer in trial.optimizers.values():
            stack.enter_context(replaced(optimizer, "step", _adam_step(optimizer, rate)))
        yield


def _adam_step(optimizer: Optimizer, rate: float) -> Callable[..., Any]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    # On small models the loop over parameters in Python takes as long as the rest of a step.
    adam = Adam(parameters, lr=rate, fused=all(map(_fusible, parameters)))

    def step(*given: Any, **named: Any) -> Any:
        return adam.step(_closure(given, named))

    return step


def _fusible(parameter: Tensor) -> bool:
    return parameter.is_floating_point() and parameter.device.type in {"cpu", "cuda"}


@contextmanager
def replaced(owner: object, name: str, value: Any) -> Iterator[None]:
    """An attribute of one object, for a while."""
    own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def _entries(mapping: dict[str, Any], changes: dict[str, Any]) -> Iterator[None]:
    before = {name: mapping[name] for name in changes}
    mapping.update(changes)
    try:
        yield
    finally:
        mapping.update(before)
