"""What one rank did, in order: plain data, written by the rank line by line and read when it has ended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

Place = tuple[str, int]
NOWHERE: Place = ("", 0)
JOINS = "ranks that have more batches go on without the others (Join)"


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A model that DistributedDataParallel wrapped."""

    model: str
    parameters: int
    finds_unused: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Calls:
    """Backward passes of a wrapped model since the last step, and forward passes that went past its wrapper (`raw`)."""

    averaged: int = 0
    unaveraged: int = 0
    raw: int = 0
    raw_place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class Step:
    """The moment before an optimizer steps: digests of gradients (None: there is none) and weights by name.

    `rates` are the learning rates of its groups, `calls` are by wrapped model. `changed` says of a wrapped model's
    weights what became of them since.
    """

    optimizer: int
    gradients: dict[str, int | None]
    weights: dict[str, int]
    calls: dict[str, Calls]
    changed: dict[str, str]
    backwards: int
    batches: int
    rates: tuple[float, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Collective:
    """A call of torch.distributed that the ranks of a group make together."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    root: int
    group: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass over a DataLoader. `indices` and `digests` are by batch; `plan` is what the sampler would give in all.

    `length` is in batches, `samples` those of the data set, -1 where unknown; `over` when it came to its own end.
    `calls` says whether a model was called in it, `content` digests the first sample as fixed random numbers make it.
    `noise` digests the random generators at its begin, `varies` says that a sample read twice differs.
    """

    loader: int
    place: Place
    sampler: str
    shuffles: bool
    epoch: int
    length: int
    samples: int
    plan: tuple[int, ...]
    indices: tuple[tuple[int, ...], ...]
    digests: tuple[int, ...]
    batches: int
    steps: int
    backwards: int
    over: bool
    calls: bool
    content: int
    noise: int
    varies: bool


@dataclass(frozen=True, slots=True)
class Saved:
    path: str
    place: Place


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that was chosen: by `set_device`, or by `device_ids` of the wrapper."""

    index: int
    how: str
    place: Place


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a rank. `lost_peer` where it only says that another rank did not answer."""

    error: str
    traceback: str
    place: Place
    lost_peer: bool
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinedStep:
    """One step in float64: how its gradient compares. `error` says why there is none.

    `averaged` is the distance of the gradient the optimizer gets from the mean of the ranks' own, `weights` are
    those with which the ranks' own gradients make up that of the joined batch, `rest` what they do not explain;
    both distances relative. `noise` is how far two gradients of the same batch are apart.
    """

    dtype: str = ""
    averaged: float = 0.0
    rest: float = 0.0
    noise: float = 0.0
    weights: tuple[float, ...] = ()
    error: str = ""


_KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (Wrapped, Step, Collective, Pass, Saved, Device, Failure, JoinedStep)
}


@dataclass(slots=True)
class RankStory:
    """`events` in order. `ended` is `finished` or `enough`, empty for a rank that came to no end of its own.

    `computing` where it still did as another gave it up, or as the time for all was over.
    `communicates` once the program itself asked for a process group. `open` is the collective it never returned from;
    `stack` and `output` are what a rank that died or hung left, `killed` says what ended it from outside.
    """

    rank: int
    events: list[Any] = field(default_factory=list)
    pid: int = 0
    ended: str = ""
    open: Collective | None = None
    notices: list[str] = field(default_factory=list)
    communicates: bool = False
    computing: bool = False
    stack: str = ""
    output: str = ""
    killed: str = ""

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def failure(self) -> Failure | None:
        return next(iter(self.of(Failure)), None)

    @classmethod
    def read(cls, rank: int, lines: Iterable[str]) -> Self:
        """From a journal, whose last line may be cut off where the rank was killed."""
        story = cls(rank)
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            story.take(told["kind"], told["of"])
        return story

    def take(self, kind: str, told: Any) -> None:
        if kind == "pid":
            self.pid = told
        elif kind == "ended":
            self.ended = told
        elif kind == "notice":
            self.notices.append(told)
        elif kind == "communicates":
            self.communicates = True
        elif kind == "computing":
            self.computing = True
        elif kind == "returned":
            self.open = None
        else:
            event = _event(kind, told)
            self.events.append(event)
            if isinstance(event, Collective):
                self.open = event


def _event(kind: str, told: dict[str, Any]) -> Any:
    values = {name: _tuples(value) for name, value in told.items()}
    if kind == Step.__name__:
        values["calls"] = {
            name: Calls(**{key: _tuples(value) for key, value in calls.items()})
            for name, calls in told["calls"].items()
        }
    return _KINDS[kind](**values)


def _tuples(value: Any) -> Any:
    """JSON knows lists only."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
