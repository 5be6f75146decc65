"""What enters the model and the losses in the first training step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.data.looked_up import LookedUp
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, by_parameter
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.trial import Trial


class Entering(NamedTuple):
    """Tensors with their names: what the first module with weights got, the losses' targets, ids that were looked up.

    One without, a dropout or an augmentation before the model, counts where there is no other.
    """

    inputs: list[tuple[str, Tensor]]
    targets: list[tuple[str, Tensor]]
    place: Location
    looked_up: LookedUp


def entering(trial: Trial) -> Entering:
    """Raises NotMeasured where no module was called on tensors."""
    seen: list[tuple[str, Tensor]] = []
    places: list[Location] = []
    weighs = False

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        nonlocal weighs
        if not seen or (not weighs and next(module.parameters(), None) is not None):
            weighs = next(module.parameters(), None) is not None
            places[:] = [user_location()]
            seen[:] = (
                ("input" if name in ("", "input") else f"input {name}", tensor)
                for name, tensor in leaves(copied(by_parameter(module, args, kwargs)))
                if tensor.layout is torch.strided
            )
        return args, kwargs

    losses, modules, looked_up = LossWatch(), ModuleWatch(keep), LookedUp(trial.models.values())
    batch = first_batches(trial, 1)[0]
    with losses, modules, looked_up, _forwards(trial.models.values(), keep):
        trial.train_step(batch, 0)
    if not seen:
        raise NotMeasured("no module was called on tensors in a training step")
    distinct: list[tuple[str, Tensor]] = []
    for call in losses.calls[:4]:
        if not any(known.shape == call.target.shape and torch.equal(known, call.target) for _, known in distinct):
            distinct.append((f"target of {call.kind}", call.target))
    return Entering(seen, distinct, places[0], looked_up)


@contextmanager
def _forwards(models: Iterable[nn.Module], keep: Callable[[nn.Module, Any, Any], Arguments]) -> Iterator[None]:
    """Tells of every pass through models of these classes, those that the loop begins with `model.forward` included.

    On the class: a copy that the step makes of a model holds nothing of this.
    """
    kinds = {type(model) for model in models if not isinstance(model, torch.jit.ScriptModule)}
    own = [(kind, vars(kind).get("forward")) for kind in kinds]
    for kind in kinds:
        kind.forward = _telling(kind.forward, keep)
    try:
        yield
    finally:
        for kind, before in own:
            if before is None:
                del kind.forward
            else:
                kind.forward = before


def _telling(original: Callable[..., Any], keep: Callable[[nn.Module, Any, Any], Arguments]) -> Callable[..., Any]:
    @wraps(original)
    def forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        keep(module, args, kwargs)
        return original(module, *args, **kwargs)

    return forward
