"""What was read of the samples of one loader."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.data.flips import Flips
from mlcheck.probe.measure.data.noise import Noise
from mlcheck.probe.measure.data.redrawn import Redrawn

_UNEVEN = "RuntimeError: stack expects each tensor to be equal size"


@dataclass(frozen=True, slots=True)
class BadSample:
    """A sample that raised or holds a value that is no number; `what` ends a sentence that starts with its index."""

    index: int
    what: str
    place: Location = field(default_factory=Location)


@dataclass(slots=True)
class Split:
    """The samples of one loader, read by index. `length` are all, `read` those there was time for.

    `shapes` count the shapes of each tensor of a sample, `example` holds an index for each of them. `digests` are
    hashes of a whole sample, `content` of what is more than single numbers in it (the input, not its label), `labels`
    of those single numbers, by index. `varying` are tensors that differ between two reads of the same index, `drawn`
    those of them that are another sample's at each read (the positive of a triplet), `flips` how pictures moved between
    them, `noise` how far they lie apart, `redrawn` which are other numbers, `variants` hashes like `content` of what
    augmentation makes of the samples under other random numbers. `sketches` are a few numbers of the largest tensor of
    each sample, `beside` of its other ones, `looks` those of its variants; `in_order` are whole samples in a row.
    """

    name: str
    length: int
    read: int = 0
    raised: list[BadSample] = field(default_factory=list)
    non_finite: list[BadSample] = field(default_factory=list)
    shapes: dict[str, Counter[tuple[int, ...]]] = field(default_factory=dict)
    example: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    content: dict[int, bytes] = field(default_factory=dict)
    labels: dict[int, bytes] = field(default_factory=dict)
    variants: dict[bytes, int] = field(default_factory=dict)
    varying: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    flips: Flips = field(default_factory=Flips)
    noise: Noise = field(default_factory=Noise)
    redrawn: Redrawn = field(default_factory=Redrawn)
    read_twice: int = 0
    joined_by_default: bool = False
    continuous: bool = False
    kept: dict[int, Tensor] = field(default_factory=dict)
    sketches: dict[int, Tensor] = field(default_factory=dict)
    beside: dict[int, Tensor] = field(default_factory=dict)
    looks: list[tuple[int, Tensor]] = field(default_factory=list)
    in_order: list[dict[str, Tensor]] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.read >= self.length

    def raises(self, error: str) -> bool:
        """Whether reading one of these samples ends with this line, or putting them into a batch does."""
        uneven = self.joined_by_default and any(len(shapes) > 1 for shapes in self.shapes.values())
        return any(bad.what == f"raises {error}" for bad in self.raised) or (uneven and error.startswith(_UNEVEN))
