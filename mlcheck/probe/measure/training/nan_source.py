"""Runs a training again up to the step that goes wrong, and that one under anomaly detection."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import repeated_batches
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.place import as_given, is_users, raised_at
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True, slots=True)
class NanSource:
    """Where the first value that is no finite number arose.

    `during` is `forward`, `backward` or empty where it was not seen again; `what` is a module or an operation, or empty
    where no module made it but what the program does with their outputs;
    `from_input` says that the batch itself holds such values. `largest` is the largest number by magnitude among the
    weights before that step and among what modules made in it, finite ones; infinite where that was not seen.
    """

    step: int
    during: str = ""
    what: str = ""
    place: Location = field(default_factory=Location)
    from_input: bool = False
    largest: float = math.inf


def find_source(trial: Trial, step: int) -> NanSource:
    """The trial must stand where the run began, with the same random numbers."""
    for index, batch in enumerate(islice(repeated_batches(trial), step + 1)):
        if index == step:
            return _watched(trial, batch, step)
        trial.train_step(batch, index)
    return NanSource(step)


def _watched(trial: Trial, batch: Any, step: int) -> NanSource:
    if any(_bad(tensor) for _, tensor in leaves(batch)):
        return NanSource(step, "forward", "the batch", from_input=True)
    names = Names(trial.models)
    made: list[tuple[str, Location]] = []
    sizes = [_size(weight) for model in trial.models.values() for weight in model.parameters()]

    def observe(module: nn.Module, output: Any) -> None:
        sizes.extend(_size(tensor) for _, tensor in leaves(output) if not _bad(tensor))
        if not made and any(_bad(tensor) for _, tensor in leaves(output)):
            made.append((names.module(module), watch.calls[-1].place if watch.calls else Location()))

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        if not made and any(_bad(tensor) for _, tensor in leaves((args, kwargs))):
            made.append(("", Location()))
        return args, kwargs

    watch, gradients = ModuleWatch(keep, observe), GradientWatch([])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with torch.autograd.detect_anomaly(check_nan=True), watch, gradients:
                trial.train_step(batch, step)
        except RuntimeError as error:
            behind = _no_loss(gradients) or (made and made[0][0])
            if "returned nan values" in str(error) and not behind:
                operation = re.search(r"Function '(\w+)'", str(error))
                place = _forward_place(told) or raised_at(error)
                return NanSource(
                    step, "backward", operation[1] if operation else "", place, largest=max(sizes, default=math.inf)
                )
    largest = max(sizes, default=math.inf)
    if made and made[0][0]:
        return replace(NanSource(step, "forward", *made[0]), largest=largest)
    return NanSource(step, "forward" if _no_loss(gradients) else "", largest=largest)


def _no_loss(watch: GradientWatch) -> bool:
    """Whether backward was called on what is no finite number: what it then makes of it is no cause."""
    return any(_bad(backward.root) for backward in watch.backwards)


def _size(tensor: Tensor) -> float:
    """The largest magnitude; infinite where a number is none."""
    values = tensor.detach()
    if not values.is_floating_point() or not values.numel():
        return 0.0
    return float(values.abs().max().nan_to_num(math.inf, math.inf))


def _bad(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and not bool(torch.isfinite(tensor.detach()).all())


def _forward_place(told: list[warnings.WarningMessage]) -> Location | None:
    """The user's line that made the operation, from the traceback which anomaly detection prints."""
    for warning in told:
        frames = [frame for frame in _FRAME.findall(str(warning.message)) if is_users(frame[0])]
        if frames:
            path, line, symbol = frames[-1]
            return Location(as_given(path), int(line), symbol=symbol)
    return None
