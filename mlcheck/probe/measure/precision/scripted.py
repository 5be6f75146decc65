"""The model traced and scripted, beside itself, in float64: on the batch it was traced with, and on parts of it.

A trace keeps one way through the program: a branch on the data, or a size that became a Python number, is the traced
batch's for good (https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.jit._trace import TracerWarning

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.exact_model import ExactModel, distance, outputs
from mlcheck.probe.measure.model.model_calls import capture
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.probe.measure.program_text import program_text
from mlcheck.probe.measure.tree import map_tensors
from mlcheck.trial.reference import in_float64
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

_SINGLE_ROWS = 16
_CALLS = {way: re.compile(rf"\bjit\.{way}\(|\bto_torchscript\(.*{way}") for way in ("trace", "script")}


@dataclass(frozen=True, slots=True)
class Way:
    """How a model was made TorchScript: `distance` from its eager outputs, the largest over batches of `rows` rows.

    `error` says what kept it from being made, `refused` what it raised on a batch that the eager model takes; `places`
    are lines where a trace wrote a value down.
    """

    name: str
    distance: float = 0.0
    rows: int = 0
    error: str = ""
    refused: str = ""
    places: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True)
class Scripted:
    """The ways that the program itself goes, `rows` in the batch of the trace."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 91

    model: str
    rows: int
    ways: tuple[Way, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few forward passes
        text = program_text(trial)
        asked = [way for way, call in _CALLS.items() if call.search(text)]
        if not asked:
            raise NotMeasured("the program makes no TorchScript of its model")
        call = capture(trial)
        if isinstance(call.module, torch.jit.ScriptModule):
            raise inconclusive("the model is TorchScript already: there is no eager one to compare it with")
        with in_float64(), torch.no_grad(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            exact = ExactModel.of(call)
            batches = list(_batches(exact, call.rows))
            ways = tuple(_compared(way, exact, batches, told) for way in asked)
        return cls(call.name, call.rows, ways)


def _batches(exact: ExactModel, rows: int) -> Iterator[tuple[int, Any, list[Tensor]]]:
    """The batch, its first half and single rows of it, with what the eager model makes of each that it takes."""
    shares = [range(rows), range(max(rows // 2, 1)), *(range(row, row + 1) for row in range(min(rows, _SINGLE_ROWS)))]
    for share in dict.fromkeys(shares):
        inputs = _rows(exact.inputs, share)
        try:
            yield len(share), inputs, outputs(exact.model, inputs)
        except Exception:  # noqa: S112 - the eager model does not take it either
            continue


def _rows(inputs: Any, share: range) -> Any:
    return map_tensors(inputs, lambda tensor: tensor[share.start : share.stop] if tensor.ndim else tensor)


def _compared(
    way: str, exact: ExactModel, batches: list[tuple[int, Any, list[Tensor]]], told: list[warnings.WarningMessage]
) -> Way:
    begun = len(told)
    try:
        made = _made(way, exact)
    except Exception as error:
        return Way(way, error=error_line(error))
    places = [
        Location(as_given(heard.filename), heard.lineno)
        for heard in told[begun:]
        if issubclass(heard.category, TracerWarning) and is_users(heard.filename)
    ]
    worst, where, refused = 0.0, 0, ""
    for rows, inputs, eager in batches:
        try:
            apart = distance(eager, outputs(made, inputs))
        except Exception as error:
            refused = refused or f"{error_line(error)} on a batch of {rows}"
            continue
        if apart > worst:
            worst, where = apart, rows
    return Way(way, worst, where, refused=refused, places=tuple(dict.fromkeys(places)))


def _made(way: str, exact: ExactModel) -> Callable[..., Any]:
    made: Callable[..., Any]
    if way == "script":
        made = torch.jit.script(exact.model)
        return made
    args, kwargs = exact.inputs
    made = torch.jit.trace(  # type: ignore[no-untyped-call]
        exact.model, example_inputs=args or None, example_kwarg_inputs=kwargs or None, check_trace=False, strict=False
    )
    return made
