"""Batch norms whose running statistics the training step puts back to what they were made with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.wiring import is_unfilled
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.trial import Trial

STEPS = 3


@dataclass(frozen=True, slots=True)
class ResetStatistics:
    """`names` of those that began each of `steps` training steps with mean 0 and variance 1 and learnt in each."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    names: tuple[str, ...]
    steps: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        norms = [m for model in trial.models.values() for m in model.modules() if isinstance(m, _BatchNorm)]
        tracking = [norm for norm in norms if norm.num_batches_tracked is not None and norm.momentum != 0]
        if not tracking:
            raise NotMeasured("no batch norm counts the batches of its running statistics")
        empty: dict[nn.Module, set[int]] = {norm: set() for norm in tracking}
        steps = 0

        def entered(norm: nn.Module, _: tuple[Any, ...]) -> None:
            if norm.training and is_unfilled(norm):
                empty[norm].add(steps)

        loaded: set[nn.Module] = set()
        with stilled(trial), _loading(loaded), ExitStack() as hooks:
            for norm in tracking:
                hooks.callback(norm.register_forward_pre_hook(entered).remove)
            for batch in first_batches(trial, STEPS):
                trial.train_step(batch, steps)
                steps += 1
        names = Names(trial.models)
        reset = tuple(names.module(norm) for norm, seen in empty.items() if len(seen) == steps and norm not in loaded)
        return cls(reset if steps > 1 else (), steps)


@contextmanager
def _loading(loaded: set[nn.Module]) -> Iterator[None]:
    """Takes down the modules that are put back whole, weights and all, as for each task of a learner that adapts."""
    original = nn.Module.load_state_dict

    def load(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        loaded.update(module.modules())
        return original(module, *args, **kwargs)

    nn.Module.load_state_dict = load  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        nn.Module.load_state_dict = original  # type: ignore[method-assign]
