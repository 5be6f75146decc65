"""Raw scores that are cut off at bounds."""

from __future__ import annotations

from mlcheck.core.dataclasses import replace
from mlcheck.lint.facts import Place
from mlcheck.lint.values import Args, Const, Kwargs, Tensor, Value

_ROOM = 0.01  # as in `clamp(eps, 1 - eps)`


def bounded(scores: Tensor, args: Args, kwargs: Kwargs, place: Place) -> Tensor:
    """What `clamp` makes of raw scores: `clamped` between 0 and 1, which are no probabilities for that."""
    low = _number(args[0] if args else kwargs.get("min"))
    high = _number(args[1] if len(args) > 1 else kwargs.get("max"))
    cut = low is not None and high is not None and 0 <= low <= _ROOM and 1 - _ROOM <= high <= 1
    return replace(scores, kind="clamped" if cut else "other", place=place if cut else scores.place)


def _number(value: Value | None) -> float | None:
    return value.value if isinstance(value, Const) and isinstance(value.value, int | float) else None
