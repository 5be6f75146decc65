"""The model compiled and exported, beside itself, in float64: whether it computes the same, and how whole it stays.

`aot_eager` captures and rewrites the model as every backend's first half does, and needs no C++ compiler
(https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.exact_model import ExactModel, distance, outputs
from mlcheck.probe.measure.model.model_calls import capture
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.probe.measure.program_text import program_text
from mlcheck.probe.measure.tree import map_tensors
from mlcheck.trial.reference import in_float64
from mlcheck.trial.trial import Trial

_CALLS = 4


@dataclass(frozen=True, slots=True)
class Compiled:
    """`distance` is the relative distance of compiled from eager output, `exported` that of the exported program's.

    A `..._error` says why there is none. `breaks` are graph breaks, reason and place; `recompiled` counts graphs that
    further calls with inputs of the same shape made necessary.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 90

    model: str
    exports: bool
    distance: float
    error: str
    exported: float
    exported_error: str
    breaks: tuple[tuple[str, Location], ...]
    recompiled: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few forward passes
        compiles, exports = _asked(trial)
        if not (compiles or exports):
            raise NotMeasured("the program neither compiles nor exports its model")
        call = capture(trial)
        with in_float64(), torch.no_grad():
            return cls._of(call.name, ExactModel.of(call), exports)

    @classmethod
    def _of(cls, name: str, exact: ExactModel, exports: bool) -> Self:
        model, inputs = exact.model, exact.inputs
        eager = outputs(model, inputs)
        torch._dynamo.reset()
        breaks, broken = _told(lambda: _breaks(model, inputs))
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="aot_eager")
        apart, error = _told(lambda: distance(eager, outputs(compiled, inputs)))
        recompiled, _ = _told(lambda: _recompiled(compiled, inputs))
        torch._dynamo.reset()
        exported, exported_error = _told(lambda: distance(eager, outputs(_exported(model, inputs), inputs)))
        return cls(
            model=name,
            exports=exports,
            distance=apart or 0.0,
            error=error or broken,
            exported=exported or 0.0,
            exported_error=exported_error,
            breaks=breaks or (),
            recompiled=recompiled or 0,
        )


def _asked(trial: Trial) -> tuple[bool, bool]:
    """Whether the program compiles and whether it exports a model, by its models and by its text."""
    compiled = any(hasattr(module, "_orig_mod") for model in trial.models.values() for module in model.modules())
    text = program_text(trial)
    return compiled or "torch.compile(" in text or ".compile()" in text, "torch.export" in text


def _breaks(model: nn.Module, inputs: Any) -> tuple[tuple[str, Location], ...]:
    args, kwargs = map_tensors(inputs, torch.clone)
    found = []
    for each in torch._dynamo.explain(model)(*args, **kwargs).break_reasons:
        frames = [frame for frame in each.user_stack if is_users(frame.filename)]
        place = Location(as_given(frames[-1].filename), frames[-1].lineno or 0) if frames else Location()
        found.append((str(each.reason).strip().splitlines()[0], place))
    return tuple(dict.fromkeys(found))


def _recompiled(compiled: Any, inputs: Any) -> int:
    """Graphs made in further calls, beyond the one that a second shape or value may bring."""
    stats = torch._dynamo.utils.counters["stats"]
    before = stats["unique_graphs"]
    for _ in range(_CALLS):
        outputs(compiled, inputs)
    return int(stats["unique_graphs"] - before)


def _exported(model: nn.Module, inputs: Any) -> nn.Module:
    args, kwargs = map_tensors(inputs, torch.clone)
    return torch.export.export(model, tuple(args), dict(kwargs)).module()


def _told(measure: Callable[[], Any]) -> tuple[Any, str]:
    """What a compiler says, or the first line of why it does not."""
    try:
        return measure(), ""
    except Exception as error:
        lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
        return None, lines[0][:300]
