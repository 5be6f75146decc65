"""What passes between a script and whoever holds its reins: requests one way, answers the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from torch.utils.data import DataLoader


class LoopKey(NamedTuple):
    """What a loop over a loader is known by in every run of the same script.

    `place` is where the loop stands, `born` where its loader is made, `number` which of the loaders made there
    before training it is; -1 for one made later. `grad` says whether gradients are on in it, `of_training` that
    they are not, and that it goes over all of the data that a loop with gradients went over.
    """

    place: tuple[str, int]
    born: tuple[str, int]
    number: int
    sampler: str
    size: int
    batch_size: int
    grad: bool
    of_training: bool

    def is_later(self, other: LoopKey) -> bool:
        """Whether this is that loop again, over a loader made anew."""
        return self.number < 0 and self._replace(number=other.number) == other


@dataclass(eq=False)
class Pass:
    """One pass of the script over a loader. `given` counts the batches it got, `over` says that there are no more.

    `goes_on` says that the script began it because the last one had come to its end, in the same loop:
    `except StopIteration: batches = iter(loader)`. To cut such a loop short ends nothing.
    """

    key: LoopKey
    loader: DataLoader[Any]
    goes_on: bool = False
    given: int = 0
    over: bool = False


@dataclass(frozen=True)
class WantsBatch:
    """The script asks for the next batch of a pass."""

    of: Pass


@dataclass(frozen=True)
class Did:
    """The script has made a `call` of a model without gradients, or is about to make one with them (`forward`) after
    it has called backward often enough; it waits to be told to go on."""

    what: str


@dataclass(frozen=True)
class Ended:
    """The script is over: by itself, by `sys.exit`, or by an error.

    `refused` is what argparse said before, `handled` the error that it left in the handling of.
    """

    error: Exception | None = None
    exit_code: object = None
    refused: str = ""
    handled: BaseException | None = None


class Answer(Enum):
    """`REAL`: the next batch of the loader itself. `STOP`: the pass is over."""

    REAL = auto()
    STOP = auto()


@dataclass(frozen=True)
class Given:
    """This batch and no other."""

    batch: Any = field(repr=False)


@dataclass(frozen=True)
class Turn:
    """Stands for the batch of a script that draws its batches itself."""

    number: int


Request = WantsBatch | Did | Ended
