"""How far autocast takes each layer's output from float32's, in units of its type's roundoff.

Roundoff is 2**-11 for float16 and 2**-8 for bfloat16 (N. J. Higham, Accuracy and Stability of Numerical Algorithms,
2002, section 2.1). A sound layer is about one unit away. What is far away loses digits: it subtracts large numbers, or
sums many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import first_batches, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch, Names
from mlcheck.probe.measure.training.called import AUTOCAST
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.half_precision import recorded_autocast
from mlcheck.trial.sandbox import restored
from mlcheck.trial.stillness import still
from mlcheck.trial.trial import Trial

_SEED = 6
_NONE = "the program does not use mixed precision"
_ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@dataclass(frozen=True, slots=True)
class AutocastError:
    """`layers` in the order they ran: name, kind, and the relative error of the output in units of roundoff.

    `products` are the linear and convolutional ones among them, `halved` those that gave out half precision.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    dtype: str
    roundoff: float
    layers: tuple[tuple[str, str, float], ...]
    products: tuple[str, ...]
    halved: tuple[str, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if AUTOCAST in called else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - four steps, whatever the limit
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself: none can be given to it twice")
        (batch,) = first_batches(trial, 1)
        with restored(trial), recorded_autocast(act_out=False) as requests:
            trial.train_step(copied(batch), 0)
        dtype = next((dtype for dtype in requests.dtypes if dtype in _ROUNDOFF), None)
        if dtype is None:
            raise NotMeasured(_NONE)
        (exact, _), (again, _) = (_outputs(trial, batch, _SEED + turn, False) for turn in range(2))
        if exact.keys() != again.keys() or any(not torch.equal(exact[key], again[key]) for key in exact):
            raise inconclusive("the forward pass draws random numbers, so two of them cannot be compared")
        try:
            rounded, types = _outputs(trial, batch, _SEED, True)
        except RuntimeError as error:
            raise inconclusive(f"half precision cannot be acted out here: {str(error).splitlines()[0]}") from None
        unit = _ROUNDOFF[dtype]
        layers = [(*key[:2], _error(exact[key], rounded[key]) / unit) for key in exact if key in rounded]
        if not layers:
            raise NotMeasured("no module of the models ran in the step")
        halved = tuple(name for name, given in types.items() if given & _ROUNDOFF.keys())
        return cls(str(dtype).removeprefix("torch."), unit, tuple(layers), tuple(types), halved)


Outputs = dict[tuple[str, str, int], Tensor]


def _outputs(trial: Trial, batch: Any, seed: int, act_out: bool) -> tuple[Outputs, dict[str, set[torch.dtype]]]:
    """What every module without parts of its own returned in a step, by name, kind and call.

    And the types that linear and convolutional layers gave out, by name.
    """
    names, kept, calls = Names(trial.models), {}, Counter[str]()
    types: dict[str, set[torch.dtype]] = {}

    def keep(module: nn.Module, output: Any) -> None:
        name = names.path(module)
        tensor = next((tensor for _, tensor in leaves(output)), None)
        if not name or tensor is None or not tensor.is_floating_point() or next(module.children(), None) is not None:
            return
        if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
            types.setdefault(name, set()).add(tensor.dtype)
        calls[name] += 1
        kept[name, type(module).__name__, calls[name]] = tensor.detach().double().clone()

    with restored(trial), still(trial):
        seed_all(seed)
        with recorded_autocast(act_out=act_out), ModuleWatch(observe=keep):
            trial.train_step(copied(batch), 0)
    return kept, types


def _error(exact: Tensor, rounded: Tensor) -> float:
    if exact.shape != rounded.shape:
        return 0.0
    size = float(exact.norm())
    distance = float((exact - rounded).norm())
    return distance / size if size else 0.0
