"""Which trained weights the framework does not know: it neither saves nor synchronises them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class WrappedWeights:
    """`outside` are the names of weights that an optimizer holds and no model of the framework's, `trained` all."""

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 1

    outside: tuple[str, ...]
    trained: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - nothing is run
        if trial.saved is None:
            raise NotMeasured("no framework saves or synchronises this program's models")
        groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
        trained = {id(weight): weight for group in groups for weight in group["params"]}
        known = {id(weight) for model in trial.models.values() for weight in model.parameters()}
        outside = [number for number in trained if number not in known]
        names = dict(_named(trial))
        told = tuple(names.get(each, f"a weight of shape {tuple(trained[each].shape)}") for each in outside)
        return cls(told, len(trained), Location(*trial.entry))


def _named(trial: Trial) -> Iterator[tuple[int, str]]:
    """The identity of each weight that hangs on an attribute of the user's objects, and its name there."""
    for owner in trial.objects:
        for attribute, value in getattr(owner, "__dict__", {}).items():
            name = f"{type(owner).__name__}.{attribute}"
            if isinstance(value, nn.Module):
                yield from ((id(weight), f"{name}.{key}") for key, weight in value.named_parameters())
            elif isinstance(value, nn.Parameter):
                yield id(value), name
