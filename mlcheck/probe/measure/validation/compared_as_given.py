"""Which tensors of a validation batch the evaluation compares with a model's output as both are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.probe.measure.drive import evaluated_batch
from mlcheck.probe.measure.loss.comparisons import LOSSES
from mlcheck.probe.measure.loss.written_pairs import SUBTRACTIONS
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class ComparedAsGiven:
    """Names of numbers that an output is subtracted from, or compared with by a loss: neither was rescaled before."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    names: frozenset[str]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one batch, whatever the limit
        evaluate, batch = evaluated_batch(trial)
        modules, pairs = ModuleWatch(), _Pairs()
        with modules, pairs:
            evaluate(copied(batch))
        outputs = [tensor for call in modules.calls for _, tensor in leaves(call.output)]
        given = [(name, leaf) for name, leaf in leaves(batch) if leaf.is_floating_point()]
        return cls(
            frozenset(
                name
                for one, other in pairs.found
                for said, wanted in ((one, other), (other, one))
                for name, leaf in given
                if _same(wanted, leaf) and any(_same(said, output) for output in outputs)
            )
        )


class _Pairs(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = [*args, *(kwargs or {}).values()][:2]
        if (func in LOSSES or func in SUBTRACTIONS) and len(given) == 2:
            one, other = given
            if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape:
                self.found.append((one.detach().clone(), other.detach().clone()))
        return func(*args, **(kwargs or {}))


def _same(one: Tensor, other: Tensor) -> bool:
    alike = one.numel() == other.numel() and one.dtype == other.dtype and one.device == other.device
    return alike and torch.equal(one.flatten(), other.detach().flatten())
