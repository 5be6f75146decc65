"""What the ranks read: whether they share the data, in how many batches, and anew in every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlcheck.core.finding import Location
from mlcheck.probe.measure.ranks.run import RankRun, location
from mlcheck.trial.ranks.story import JOINS, Collective, Pass, Step

__all__ = ["JOINS", "Together", "passes", "repeated_epochs", "unreduced"]

_REDUCING = ("reduce", "gather")
_WHOLE = frozenset({"RandomSampler", "SequentialSampler"})


@dataclass(frozen=True, slots=True)
class Together:
    """The same pass as each rank made it."""

    passes: tuple[Pass, ...]
    place: Location

    @property
    def first(self) -> Pass:
        return self.passes[0]

    @property
    def trains(self) -> bool:
        return any(one.backwards for one in self.passes)

    @property
    def repeated(self) -> tuple[int, int]:
        """How many batches are the same on all ranks, of how many."""
        batches = list(zip(*(one.digests for one in self.passes)))
        return sum(len(set(batch)) == 1 for batch in batches), len(batches)

    @property
    def samples(self) -> int:
        return self.first.samples

    @property
    def doubled(self) -> int:
        """How many more samples the ranks read in a whole pass than there are, beyond what makes them even."""
        if not (self.one_source and all(one.plan for one in self.passes)):
            return 0
        read = sum(len(one.plan) for one in self.passes)
        different = len({index for one in self.passes for index in one.plan})
        return max(0, read - different - len(self.passes) * max(1, len(self.first.plan) // max(1, self.first.length)))

    @property
    def missed(self) -> int:
        """Samples that no rank reads, beyond what even and full batches leave over."""
        if not (self.one_source and all(one.plan for one in self.passes)):
            return 0
        read = {index for one in self.passes for index in one.plan}
        left_over = sum(len(one.plan) // max(1, one.length) for one in self.passes)
        return max(0, self.samples - len(read) - left_over)

    @property
    def one_source(self) -> bool:
        """Whether the data sets are the same, by their size and first sample, so that indices mean the same."""
        known = self.first.content != 0 and self.samples > 0
        return known and len({(one.content, one.samples) for one in self.passes}) == 1

    @property
    def whole(self) -> bool:
        """Whether every rank goes through all of the same data by itself."""
        return self.one_source and all(
            one.sampler in _WHOLE and len(set(one.plan)) == one.samples for one in self.passes
        )

    @property
    def lengths(self) -> tuple[int, ...]:
        """Batches by rank: what the loaders say, or what came where they came to their end; empty where unknown."""
        known = [one.length if one.length >= 0 else one.batches if one.over else -1 for one in self.passes]
        return tuple(known) if min(known) >= 0 else ()


def passes(run: RankRun) -> list[Together]:
    """Those that all ranks made over the same loader for the same time, in order."""
    by_rank = [{(one.loader, one.epoch): one for one in rank.of(Pass)} for rank in run.ranks]
    shared = [key for key in by_rank[0] if all(key in rank for rank in by_rank)]
    return [
        Together(tuple(rank[key] for rank in by_rank), location(by_rank[0][key].place, run.place)) for key in shared
    ]


def repeated_epochs(run: RankRun) -> Iterator[tuple[Together, Together]]:
    """Consecutive passes of a sampler that should shuffle, in the same order."""
    of: dict[int, Together] = {}
    for now in passes(run):
        before = of.get(now.first.loader)
        of[now.first.loader] = now
        if before is None or not (now.first.shuffles and now.trains and before.trains):
            continue
        one, other = before.first.plan or before.first.indices, now.first.plan or now.first.indices
        if one and one == other and len(set(one)) > 1:
            yield before, now


def unreduced(run: RankRun) -> Iterator[Together]:
    """Passes without training over a share of the data, after which no rank hears of the others' results."""
    shared = {(one.first.loader, one.first.epoch): one for one in passes(run)}
    events = run.ranks[0].events
    for position, event in enumerate(events):
        if not isinstance(event, Pass) or event.backwards or not event.calls:
            continue
        if (event.loader, event.epoch) not in shared:
            continue
        together = shared[event.loader, event.epoch]
        same, of = together.repeated
        same_plan = len({frozenset(one.plan) for one in together.passes}) == 1
        if same or not of or (together.one_source and same_plan) or not together.first.plan:
            continue
        before = _since_training(events[:position])
        after = _until_training(events[position + 1 :])
        if not any(map(_reduces, (*before, *after))):
            yield together


def _reduces(event: object) -> bool:
    return isinstance(event, Collective) and any(word in event.op for word in _REDUCING)


def _until_training(events: list[object]) -> Iterator[object]:
    for event in events:
        if isinstance(event, Step):
            return
        yield event


def _since_training(events: list[object]) -> list[object]:
    return list(_until_training(events[::-1]))
