"""What happened to tensors whose shapes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcheck.core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from mlcheck.lint.facts import Forward, Place
    from mlcheck.lint.values import Shape


class Broadcast(NamedTuple):
    """A difference or comparison of a model's output with something of another shape: larger than both."""

    place: Place
    shapes: tuple[Shape, Shape]


class Softmax(NamedTuple):
    """A softmax, or its logarithm, over dimension `dim` of something of that shape, which these calls computed.

    `raw` says that it comes as a linear or convolutional layer gave it.
    """

    place: Place
    shape: Shape
    dim: int
    calls: frozenset[Forward]
    raw: bool


class ReadAcross(NamedTuple):
    """A call of a recurrent layer or of attention that takes the samples which a loader put together for a sequence."""

    layer: Place
    place: Place
