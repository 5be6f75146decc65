"""Whether the output for one sample depends on the other samples of its batch."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import exclusively_evaluating, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.exact_model import exact_copy
from mlcheck.probe.measure.model.exchanges import (
    SINGLE_PRECISION_ROUNDING,
    deviation,
    difference,
    exchanges,
    reordered,
    tables_of_pairs,
)
from mlcheck.probe.measure.model.joined_samples import SAMPLES, deviation_when_joined
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.model.nodes import cannot_be_fewer, holds_relations
from mlcheck.probe.measure.model.noise import NoNoise
from mlcheck.probe.measure.model.remembered import Remembered, held
from mlcheck.probe.measure.model.stacked import stacks_samples
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class BatchIndependence:
    """Rows of the model's output in evaluation mode, with their own neighbours and with others.

    `deviation` is the largest relative difference, 0 when bitwise equal; `exact_deviation` the same in
    float64, None where it was not needed or not possible. `reached` counts the rows that a NaN in row 0
    spreads to, `first_module` is the innermost module where rows meet. Where samples are no rows, as graphs that are
    joined end to end, `rows` samples were joined and compared with each alone. `displaced` is the deviation of rows
    that all stand at another place, in the opposite order, 0 where rounding explains it; only where rows are
    independent of one another. `swallowed` says that they meet in `first_module` and all get one and the same answer.
    `refused` is the error that other rows in their place made the model raise: then nothing else is known. Nor is it of
    a model that keeps something of the batch before, `remembered`.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    model: str
    rows: int
    deviation: float
    exact_deviation: float | None
    reached: int | None
    first_module: str
    displaced: float = 0.0
    swallowed: bool = False
    refused: str = ""
    remembered: Remembered | None = None

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        try:
            call = capture(trial)
        except NotMeasured:
            if (apart := deviation_when_joined(trial)) is None:
                raise
            return cls("", SAMPLES, apart[0], apart[1], None, "")
        if call.rows < 3:
            raise NotMeasured(f"the batch has {plural(call.rows, 'row')}: there are too few neighbours to exchange")
        with exclusively_evaluating(iter(trial.models.values())), ExitStack() as stack:
            if holds_relations(call):
                raise inconclusive(
                    "an input has a number for every pair of rows, as an adjacency matrix has: "
                    "rows may be nodes of a graph"
                )
            if not any(tensor.ndim and tensor.shape[0] == call.rows for tensor in call.replay()):
                raise NotMeasured("the model's output has no batch dimension")
            if remembered := Remembered.of(trial, call):
                return cls(call.name, call.rows, 0.0, None, None, "", remembered=remembered)
            try:
                gap = deviation(call, call.module, (call.args, call.kwargs))
            except Exception as error:  # rows that have to be sorted, say
                return cls(call.name, call.rows, 0.0, None, None, "", refused=error_line(error))
            if gap and call.draws_noise():
                # noise belongs to a place, and a model may sort its rows
                stack.enter_context(NoNoise())  # type: ignore[no-untyped-call]
                gap = deviation(call, call.module, (call.args, call.kwargs))
            if (
                not gap
                and _answers_all_alike(call)
                and (where := _where_rows_meet(call, trial, SINGLE_PRECISION_ROUNDING))
            ):
                return cls(call.name, call.rows, 0.0, None, None, where, swallowed=True)
            if not gap:
                displaced = _displaced(call)
                where = _where_place_counts(call, trial) if displaced else ""
                return cls(call.name, call.rows, 0.0, None, None, where, displaced)
            if not stacks_samples(trial, call):
                _refuse_other_rows(call)
            exact = _exact_deviation(call)
            return cls(call.name, call.rows, gap, exact, _poisoned(call), _where_rows_meet(call, trial))


def _refuse_other_rows(call: CapturedCall) -> None:
    """Where nothing says that the first dimension counts samples, it may be time, or the nodes of one graph."""
    if cannot_be_fewer(call):
        raise inconclusive(
            "the model takes as many rows as it was given and not one less: they may be the nodes of one graph"
        )
    if _other_axis_is_independent(call):
        raise inconclusive(
            "rows along the second dimension are independent and along the first are not: the model "
            "may take (time, batch) on purpose"
        )
    of_one: list[torch.nn.Module] = []

    def observe(module: torch.nn.Module, output: Any) -> None:
        if isinstance(module, torch.nn.RNNBase) and not module.batch_first and isinstance(output[0], Tensor):
            of_one.extend([module] if output[0].ndim == 3 and output[0].shape[:2] == (call.rows, 1) else [])

    with ModuleWatch(observe=observe):
        call.replay()
    if of_one:
        raise inconclusive(
            "a recurrent layer takes (time, batch, features) and gets a batch of one: the rows may be its time steps"
        )


def _displaced(call: CapturedCall) -> float:
    """The deviation when all rows come in the opposite order; 0 where it is rounding, or was to be expected.

    Noise that is drawn a row belongs to the place of a row, as does a state that the model keeps for each.
    """
    if call.draws_noise() or _keeps_rows(call):
        return 0.0
    if not _deviation_in_reverse(call, call.module, (call.args, call.kwargs)):
        return 0.0
    try:
        model = exact_copy(call.module)
        arguments = map_tensors((call.args, call.kwargs), lambda t: t.double() if t.is_floating_point() else t)
        exact = _deviation_in_reverse(call, model, arguments)
    except Exception:  # a model with its own precision or that cannot be copied
        return 0.0
    return exact if exact > ROUNDING and not _other_axis_is_independent(call) else 0.0


def _deviation_in_reverse(call: CapturedCall, module: torch.nn.Module, arguments: Arguments) -> float:
    turned = torch.arange(call.rows).flip(0)
    before, after = call.replay(arguments, module), call.replay(reordered(arguments, turned), module)
    tables = tables_of_pairs(call, module, arguments, before)
    rows = [
        (one, other.flip(0, 1) if place in tables else other.flip(0))
        for place, (one, other) in enumerate(zip(before, after))
        if one.ndim and one.shape == other.shape and len(one) == call.rows
    ]
    return max((difference(one, other) for one, other in rows), default=0.0)


def _keeps_rows(call: CapturedCall) -> bool:
    """Whether some module holds a tensor, not a parameter, with a place for each row."""
    return any(call.rows in tensor.shape[:2] for _, tensor in held(call))


def _where_place_counts(call: CapturedCall, trial: Trial) -> str:
    """The first module whose output for the same rows differs with their places."""
    turned = torch.arange(call.rows).flip(0)
    here = _outputs(call, (call.args, call.kwargs), turned)
    there = _outputs(call, reordered((call.args, call.kwargs), turned), torch.arange(call.rows))
    for (module, one), (_, other) in zip(here, there):
        if difference(one, other) > SINGLE_PRECISION_ROUNDING:
            return Names(trial.models).module(module)
    return ""


def _exact_deviation(call: CapturedCall) -> float | None:
    """In float64, where a difference by rounding shrinks below 1e-9; None where the model cannot do it."""
    try:
        model = exact_copy(call.module)
        arguments = map_tensors((call.args, call.kwargs), lambda t: t.double() if t.is_floating_point() else t)
        return deviation(call, model, arguments)
    except Exception:  # a model with its own precision or that cannot be copied
        return None


def _other_axis_is_independent(call: CapturedCall) -> bool:
    """Whether dimension 1 behaves as a batch dimension should."""
    inputs = [t for _, t in leaves((call.args, call.kwargs)) if t.ndim > 1]
    outputs = [t for t in call.replay() if t.ndim > 1]
    width = inputs[0].shape[1] if inputs else 0
    if width < 3 or not outputs or any(t.shape[1] != width for t in inputs + outputs):
        return False
    try:
        return not deviation(call, call.module, (call.args, call.kwargs), dim=1, rows=width)
    except Exception:  # the second dimension is not to be touched
        return False


def _poisoned(call: CapturedCall) -> int | None:
    """How many rows besides the first turn NaN when the first is; None for inputs without NaN (tokens)."""
    inputs = [tensor for _, tensor in leaves((call.args, call.kwargs))]
    if not any(tensor.is_floating_point() for tensor in inputs):
        return None

    def poison(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() or not tensor.ndim:
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


def _answers_all_alike(call: CapturedCall) -> bool:
    """Whether all rows get the same output, whatever they hold."""
    rows = [output for output in call.replay() if output.ndim and len(output) == call.rows]
    return bool(rows) and all(not difference(one[:1].expand_as(one), one) for one in rows)


def _where_rows_meet(call: CapturedCall, trial: Trial, above: float = 0.0) -> str:
    """The first module whose output for a row differs although only rows around it were exchanged."""
    for stay, order in exchanges(call.rows):
        here = _outputs(call, (call.args, call.kwargs), stay)
        there = _outputs(call, reordered((call.args, call.kwargs), order), stay)
        for (module, one), (_, other) in zip(here, there):
            if difference(one, other) > above:
                return Names(trial.models).module(module)
    return ""


def _outputs(call: CapturedCall, arguments: Arguments, stay: Tensor) -> list[tuple[torch.nn.Module, Tensor]]:
    seen: list[tuple[torch.nn.Module, Tensor]] = []

    def observe(module: torch.nn.Module, output: Any) -> None:
        first = next((tensor for _, tensor in leaves(output)), None)
        if first is not None and first.ndim and first.shape[0] == call.rows:
            seen.append((module, first.index_select(0, stay.to(first.device))))

    with ModuleWatch(observe=observe):
        call.replay(arguments)
    return seen
