"""The user's training with what hinders memorising switched off, or with another optimizer, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from mlcheck.trial.trial import Trial


def learning_rate(trial: Trial) -> float:
    return max((float(group["lr"]) for opt in trial.optimizers.values() for group in opt.param_groups), default=0.0)


def nominal_rate(trial: Trial) -> float:
    """The rate that the schedules are named by: above `learning_rate` where one of them begins lower and warms up."""
    scheduled = bool(trial.schedulers)
    groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
    return max((float(_plain(group, scheduled)["lr"]) for group in groups), default=0.0)


@contextmanager
def unregularised(trial: Trial) -> Iterator[None]:
    """No weight decay, no dropout inside fused modules, schedules held at the rate they are named by."""
    with ExitStack() as stack:
        for model in trial.models.values():
            for module in model.modules():
                if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
                    stack.enter_context(replaced(module, "dropout", 0.0))
        for scheduler in trial.schedulers.values():
            stack.enter_context(replaced(scheduler, "step", lambda *_, **__: None))
        for optimizer in trial.optimizers.values():
            for group in optimizer.param_groups:
                stack.enter_context(_entries(group, _plain(group, bool(trial.schedulers))))
        yield


def _plain(group: dict[str, Any], scheduled: bool) -> dict[str, Any]:
    nominal = group.get("max_lr", group.get("initial_lr", group["lr"])) if scheduled else group["lr"]
    changes = {"lr": nominal if not isinstance(group["lr"], Tensor) else group["lr"]}
    if "weight_decay" in group:
        changes["weight_decay"] = 0.0
    return changes


@contextmanager
def stilled(trial: Trial) -> Iterator[None]:
    """The loop runs as before and changes no parameter: its optimizers' and schedulers' steps do nothing."""
    with ExitStack() as stack:
        for stepping in (*trial.optimizers.values(), *trial.schedulers.values()):
            stack.enter_context(replaced(stepping, "step", lambda closure=None, *_, **__: closure and closure()))
        yield


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
def with_rates(trial: Trial, factor: float) -> Iterator[None]:
    """Schedules held, and every learning rate multiplied."""
    with ExitStack() as stack:
        for scheduler in trial.schedulers.values():
            stack.enter_context(replaced(scheduler, "step", lambda *_, **__: None))
        for optimizer in trial.optimizers.values():
            for group in optimizer.param_groups:
                nominal = _plain(group, bool(trial.schedulers))["lr"]
                stack.enter_context(_entries(group, {"lr": nominal * factor}))
        yield


@contextmanager
def replaced_by_adam(trial: Trial, rate: float) -> Iterator[None]:
    """The user's loop calls its optimizers as before; Adam does the updates."""
    with ExitStack() as stack:
        for optimizer in trial.optimizers.values():
            stack.enter_context(replaced(optimizer, "step", _adam_step(optimizer, rate)))
        yield


def _adam_step(optimizer: Optimizer, rate: float) -> Callable[..., Any]:
    adam = Adam([parameter for group in optimizer.param_groups for parameter in group["params"]], lr=rate)

    def step(closure: Callable[[], Any] | None = None, **_: Any) -> Any:
        return adam.step(closure)

    return step


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
