"""Whether all that a model gets of a sample is the same for each, while other parts of the sample are not."""

from __future__ import annotations

from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.tensors import same_bits


def same_inputs(training: Pass, inputs: tuple[str, ...]) -> tuple[str, int] | None:
    """The place of one in the batch, and in how many samples each bit of all of them is the same."""
    rows: dict[str, list[Tensor]] = {}
    for batch in training.kept:
        for name, tensor in leaves(batch):
            rows.setdefault(name, []).append(tensor)
    given = [name for name in inputs if any(tensor.ndim > 1 for tensor in rows.get(name, ()))]
    if not given or len(given) < len(inputs) or not all(_is_one(rows[name]) for name in given):
        return None
    if all(_is_one(tensors) for tensors in rows.values()):
        return None
    return part_of("batch", given[0]), sum(map(len, rows[given[0]]))


def _is_one(tensors: list[Tensor]) -> bool:
    """Whether all rows of these are one and the same."""
    row = tensors[0][:1]
    return all(
        tensor.ndim > 0 and tensor.shape[1:] == row.shape[1:] and same_bits(tensor, row.expand_as(tensor))
        for tensor in tensors
    )
