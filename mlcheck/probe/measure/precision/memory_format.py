"""The model on channels-last memory beside itself on contiguous memory, in float64: the numbers are to be the same.

https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.exact_model import ExactModel, distance, outputs
from mlcheck.probe.measure.model.model_calls import capture
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.measure.program_text import program_text
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.reference import in_float64
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

_FORMATS: dict[int, torch.memory_format] = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True, slots=True)
class MemoryFormats:
    """`distance` is the relative distance of the output on channels-last memory; `error`, raised at `place`, says why
    there is none.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 88

    model: str
    distance: float
    error: str
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few forward passes
        if "channels_last" not in program_text(trial):
            raise NotMeasured("the program does not ask for channels-last memory")
        call = capture(trial)
        dimensions = {tensor.ndim for _, tensor in leaves((call.args, call.kwargs)) if tensor.is_floating_point()}
        if not dimensions & _FORMATS.keys():
            raise NotMeasured("the model takes no images: channels-last memory is for tensors of four dimensions")
        with in_float64(), torch.no_grad():
            exact = ExactModel.of(call)
            wanted = _FORMATS[max(dimensions & _FORMATS.keys())]
            plain = outputs(_in_format(exact.model, torch.contiguous_format), _laid_out(exact.inputs, False))
            try:
                other = outputs(_in_format(exact.model, wanted), _laid_out(exact.inputs, True))
            except RuntimeError as error:
                return cls(call.name, 0.0, error_line(error), raised_at(error))
        return cls(call.name, distance(plain, other), "", Location())


def _in_format(model: nn.Module, wanted: torch.memory_format) -> nn.Module:
    return model.to(memory_format=wanted)  # type: ignore[no-any-return, call-overload]


def _laid_out(inputs: Any, channels_last: bool) -> Any:
    def laid_out(tensor: Tensor) -> Tensor:
        wanted = _FORMATS.get(tensor.ndim) if channels_last and tensor.is_floating_point() else None
        return tensor.contiguous(memory_format=wanted or torch.contiguous_format)

    return map_tensors(inputs, laid_out)
