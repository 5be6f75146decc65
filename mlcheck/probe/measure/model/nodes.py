"""Whether the rows that a model is given are the nodes of one graph, of which it cannot do with one less."""

from __future__ import annotations

from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.tree import leaves, map_tensors


def holds_relations(call: CapturedCall) -> bool:
    """Whether, beside the rows themselves, there is a matrix of rows by rows, without which they cannot be fewer.

    Sequences or features may be as many as the samples by chance: then a batch of one sample less is a batch as well.
    """
    tensors = [tensor for _, tensor in leaves((call.args, call.kwargs))]
    if len(tensors) < 2 or all(tuple(tensor.shape) != (call.rows, call.rows) for tensor in tensors):
        return False
    return cannot_be_fewer(call)


def cannot_be_fewer(call: CapturedCall) -> bool:
    """Whether the model fails, or answers for other than the rest, when it is given one row less."""
    fewer = map_tensors((call.args, call.kwargs), lambda t: t[:-1] if t.ndim and len(t) == call.rows else t)
    try:
        return not any(tensor.ndim and len(tensor) == call.rows - 1 for tensor in call.replay(fewer))
    except Exception:
        return True
