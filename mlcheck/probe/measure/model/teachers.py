"""Models that training asks without gradients and never changes: a teacher, a fixed feature extractor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.wiring import is_unfilled
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

STEPS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """A model that was called once a step, without gradients; `dropouts` of its modules were active.

    So were `norms`, though they had statistics of earlier batches.
    """

    name: str
    place: Location
    dropouts: tuple[str, ...]
    norms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Teachers:
    """Models whose weights no optimizer trains and three training steps leave as they are, though they are called."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    asked: tuple[Asked, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps, whatever the limit
        fresh: dict[nn.Module, bool] = {}

        def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
            for part in module.modules():
                fresh.setdefault(part, is_unfilled(part))
            return args, kwargs

        watch, steps = ModuleWatch(note), 0
        before: dict[nn.Module, list[Tensor]] = {}
        with watch:
            for index, batch in enumerate(first_batches(trial, STEPS)):
                trial.train_step(copied(batch), index)
                steps += 1
                for call in watch.calls:
                    if call.module not in before:
                        before[call.module] = [p.detach().clone() for p in call.module.parameters()]
        calls = Counter(call.module for call in watch.calls)
        silent = {call.module for call in watch.calls} - {call.module for call in watch.calls if call.grad}
        groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
        trained = {id(p) for group in groups for p in group["params"] if p.requires_grad}
        still = [
            module
            for module in calls
            if module in silent and calls[module] == steps and _is_still(module, before, trained)
        ]
        if not still or steps < 2:
            raise NotMeasured("no model is asked without gradients and left as it is in training")
        active = {call.module for call in watch.modal if call.training and not fresh.get(call.module)}
        places = {call.module: call.place for call in watch.calls}
        names = Names(trial.models)
        return cls(tuple(_asked(module, places[module], active, names) for module in still))


def _is_still(module: nn.Module, before: dict[nn.Module, list[Tensor]], trained: set[int]) -> bool:
    now = list(module.parameters())
    return bool(now) and all(
        id(p) not in trained and same_bits(p.detach(), then) for p, then in zip(now, before[module], strict=True)
    )


def _asked(module: nn.Module, place: Location, active: set[nn.Module], names: Names) -> Asked:
    inner = [(part, f"{path} ({type(part).__name__})") for path, part in module.named_modules() if part in active]
    dropouts = tuple(name for part, name in inner if isinstance(part, _DropoutNd))
    norms = tuple(name for part, name in inner if isinstance(part, _BatchNorm))
    return Asked(names.path(module) or type(module).__name__, place, dropouts, norms)
