"""The shapes of what recurrent layers and attention return."""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.lint.shapes import rules
from mlcheck.lint.values import FALSE, TRUE, Const, Object, Shape, Value

_BOTH_WAYS = {"RNN": 7, "GRU": 6, "LSTM": 6}


def steps(module: Object, name: str, given: Value) -> Shape | None:
    """Of all steps: the first two sizes as they were, and what the layer makes of the last."""
    shape = rules.of(given)
    if name == "MultiheadAttention":
        return shape if shape is not None and shape.dims else None
    if {"**", "proj_size"} & module.kwargs.keys() or (shape is not None and not shape.dims):
        return None
    width = _width(module, _BOTH_WAYS[name])
    if shape is None and module.kwargs.get("batch_first") == TRUE:
        return Shape((None, None, width))
    return Shape((*(shape.dims[:-1] if shape is not None else ()), width), shape is None or shape.open)


def _width(module: Object, place: int) -> Hashable:
    """The hidden size, twice where it reads both ways; None where that is not known."""
    hidden = module.args[1] if len(module.args) > 1 else module.kwargs.get("hidden_size")
    both = module.args[place] if len(module.args) > place else module.kwargs.get("bidirectional", FALSE)
    size = rules.size_of(hidden) if hidden is not None else None
    if both == FALSE:
        return size
    return 2 * size if both == TRUE and isinstance(size, int) and isinstance(hidden, Const) else None
