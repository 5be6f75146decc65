"""The model compiled and exported, beside itself, in float64: whether it computes the same, and how whole it stays.

`aot_eager` captures and rewrites the model as every backend's first half does, and needs no C++ compiler
(https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model_calls import CapturedCall, capture
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.generators import seed_all
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
        model = getattr(call.module, "_orig_mod", call.module)
        try:
            exact = copy.deepcopy(model).cpu().double().eval()
        except Exception as error:
            raise inconclusive(f"the model cannot be copied: {error}") from None
        with in_float64(), torch.no_grad():
            return cls._of(call, exact, exports)

    @classmethod
    def _of(cls, call: CapturedCall, exact: nn.Module, exports: bool) -> Self:
        inputs = map_tensors((call.args, call.kwargs), _double)
        eager, again = _output(exact, inputs), _output(exact, inputs, 1)
        if not eager or any(not torch.equal(one, other) for one, other in zip(eager, again, strict=True)):
            raise inconclusive("two forward passes in evaluation mode differ, so a compiled one cannot be compared")
        torch._dynamo.reset()
        breaks, broken = _told(lambda: _breaks(exact, inputs))
        torch._dynamo.reset()
        compiled = torch.compile(exact, backend="aot_eager")
        distance, error = _told(lambda: _distance(eager, _output(compiled, inputs)))
        recompiled, _ = _told(lambda: _recompiled(compiled, inputs))
        torch._dynamo.reset()
        exported, exported_error = _told(lambda: _distance(eager, _output(_exported(exact, inputs), inputs)))
        return cls(
            model=call.name,
            exports=exports,
            distance=distance or 0.0,
            error=error or broken,
            exported=exported or 0.0,
            exported_error=exported_error,
            breaks=breaks or (),
            recompiled=recompiled or 0,
        )


def _asked(trial: Trial) -> tuple[bool, bool]:
    """Whether the program compiles and whether it exports a model, by its models and by the text of its entry."""
    compiled = any(hasattr(module, "_orig_mod") for model in trial.models.values() for module in model.modules())
    try:
        text = Path(trial.entry[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    return compiled or "torch.compile(" in text or ".compile()" in text, "torch.export" in text


def _output(model: Callable[..., Any], inputs: Any, seed: int = 0) -> list[Tensor]:
    seed_all(seed)
    args, kwargs = map_tensors(inputs, torch.clone)
    return [tensor.detach().clone() for _, tensor in leaves(model(*args, **kwargs))]


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
        _output(compiled, inputs)
    return int(stats["unique_graphs"] - before)


def _exported(model: nn.Module, inputs: Any) -> nn.Module:
    args, kwargs = map_tensors(inputs, torch.clone)
    return torch.export.export(model, tuple(args), dict(kwargs)).module()


def _distance(eager: list[Tensor], other: list[Tensor]) -> float:
    if [one.shape for one in eager] != [one.shape for one in other]:
        return float("inf")
    size = max((float(one.double().norm()) for one in eager), default=0.0) or 1.0
    return max((float((a.double() - b.double()).norm()) for a, b in zip(eager, other)), default=0.0) / size


def _told(measure: Callable[[], Any]) -> tuple[Any, str]:
    """What a compiler says, or the first line of why it does not."""
    try:
        return measure(), ""
    except Exception as error:
        lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
        return None, lines[0][:300]


def _double(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double() if tensor.is_floating_point() else tensor.detach().cpu().clone()
