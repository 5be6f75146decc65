"""Whether the output for one sample depends on the other samples of its batch."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.probe.measure.drive import exclusively_evaluating, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model_calls import CapturedCall, capture
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class BatchIndependence:
    """Row 0 of the model's output in evaluation mode, with its own neighbours and with others.

    `deviation` is the largest relative difference, 0 when bitwise equal; `exact_deviation` the same in
    float64, None where it was not needed or not possible. `reached` counts the rows that a NaN in row 0
    spreads to, `first_module` is the innermost module where rows meet.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 50

    model: str
    rows: int
    deviation: float
    exact_deviation: float | None
    reached: int | None
    first_module: str

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        call = capture(trial)
        if call.rows < 3:
            raise NotMeasured(f"the batch has {call.rows} rows: there are too few neighbours to exchange")
        if _holds_relations(call):
            raise inconclusive(
                "an input has a number for every pair of rows, as an adjacency matrix has: rows may be nodes of a graph"
            )
        with exclusively_evaluating(iter(trial.models.values())):
            if not any(tensor.ndim and tensor.shape[0] == call.rows for tensor in call.replay()):
                raise NotMeasured("the model's output has no batch dimension")
            deviation = _deviation(call, call.module, (call.args, call.kwargs))
            if not deviation:
                return cls(call.name, call.rows, 0.0, None, None, "")
            if _other_axis_is_independent(call):
                raise inconclusive(
                    "rows along the second dimension are independent and along the first are not: the model "
                    "may take (time, batch) on purpose"
                )
            exact = _exact_deviation(call)
            return cls(call.name, call.rows, deviation, exact, _poisoned(call), _where_rows_meet(call, trial))


def _holds_relations(call: CapturedCall) -> bool:
    """Whether, beside the rows themselves, there is a matrix of rows by rows."""
    tensors = [tensor for _, tensor in leaves((call.args, call.kwargs))]
    return len(tensors) > 1 and any(tuple(tensor.shape) == (call.rows, call.rows) for tensor in tensors)


def _others_exchanged(arguments: Arguments, rows: int, dim: int = 0) -> Arguments:
    """Row 0 stays; the others become copies of one another in another order, the first of them doubled."""
    order = torch.tensor([0, *reversed(range(2, rows)), 2])

    def exchange(tensor: Tensor) -> Tensor:
        fits = tensor.ndim > dim and tensor.shape[dim] == rows
        return tensor.index_select(dim, order.to(tensor.device)) if fits else tensor

    return map_tensors(arguments, exchange)  # type: ignore[no-any-return]


def _deviation(call: CapturedCall, module: torch.nn.Module, arguments: Arguments, dim: int = 0, rows: int = 0) -> float:
    rows = rows or call.rows
    before = call.replay(arguments, module)
    after = call.replay(_others_exchanged(arguments, rows, dim), module)
    worst = 0.0
    for one, other in zip(before, after):
        if one.ndim <= dim or one.shape[dim] != rows or one.shape != other.shape:
            continue
        here, there = one.select(dim, 0).double(), other.select(dim, 0).double()
        same = (here == there) | (here.isnan() & there.isnan())
        if not bool(same.all()):
            scale = float(here[here.isfinite()].abs().max()) if bool(here.isfinite().any()) else 1.0
            gap = float((here - there)[~same].abs().max())
            worst = max(worst, gap / max(scale, 1e-30)) if gap == gap else float("inf")
    return worst


def _exact_deviation(call: CapturedCall) -> float | None:
    """In float64, where a difference by rounding shrinks below 1e-9; None where the model cannot do it."""
    try:
        model = copy.deepcopy(call.module).double()
        arguments = map_tensors((call.args, call.kwargs), lambda t: t.double() if t.is_floating_point() else t)
        return _deviation(call, model, arguments)
    except Exception:  # a model with its own precision or that cannot be copied
        return None


def _other_axis_is_independent(call: CapturedCall) -> bool:
    """Whether dimension 1 behaves as a batch dimension should."""
    inputs = [t for t in _tensors((call.args, call.kwargs)) if t.ndim > 1]
    outputs = [t for t in call.replay() if t.ndim > 1]
    width = inputs[0].shape[1] if inputs else 0
    if width < 3 or not outputs or any(t.shape[1] != width for t in inputs + outputs):
        return False
    try:
        return not _deviation(call, call.module, (call.args, call.kwargs), dim=1, rows=width)
    except Exception:  # the second dimension is not to be touched
        return False


def _poisoned(call: CapturedCall) -> int | None:
    """How many rows besides the first turn NaN when the first is; None for inputs without NaN (tokens)."""
    inputs = _tensors((call.args, call.kwargs))
    if not any(tensor.is_floating_point() for tensor in inputs):
        return None

    def poison(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        poisoned = tensor.clone()
        poisoned[0] = float("nan")
        return poisoned

    try:
        outputs = call.replay(map_tensors((call.args, call.kwargs), poison))
    except Exception:  # a model that checks its input
        return None
    spread = [t[1:].reshape(call.rows - 1, -1).isnan().any(1) for t in outputs if t.ndim and t.shape[0] == call.rows]
    return int(torch.stack(spread).any(0).sum()) if spread else None


def _where_rows_meet(call: CapturedCall, trial: Trial) -> str:
    """The first module whose output row 0 differs although rows only around it were exchanged."""
    kept: list[list[tuple[torch.nn.Module, Tensor]]] = []
    for arguments in ((call.args, call.kwargs), _others_exchanged((call.args, call.kwargs), call.rows)):
        seen: list[tuple[torch.nn.Module, Tensor]] = []

        def observe(module: torch.nn.Module, output: Any, seen: list[Any] = seen) -> None:
            if isinstance(output, Tensor) and output.ndim and output.shape[0] == call.rows:
                seen.append((module, output[0].clone()))

        with ModuleWatch(observe=observe):
            call.replay(arguments)
        kept.append(seen)
    for (module, here), (_, there) in zip(*kept):
        if not torch.equal(here, there):
            return Names(trial.models).module(module)
    return ""


def _tensors(arguments: Any) -> list[Tensor]:
    return [tensor for _, tensor in leaves(arguments)]
