"""Whether all ranks come to the end, and where they fail to meet: who died, who waits where for whom."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from mlcheck.core.finding import Location
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.probe.measure.ranks.run import RankRun, location
from mlcheck.trial.ranks.story import Collective, Failure, RankStory

__all__ = ["Collective", "Death", "Parting", "at", "deaths", "parting", "waiting"]


@dataclass(frozen=True, slots=True)
class Parting:
    """The first call of a group's that is not the same on all of its ranks: what each does instead, and where."""

    number: int
    told: str
    places: tuple[Location, ...]


def parting(run: RankRun) -> Parting | None:
    """Compares the collectives of every group, in order; a rank that was cut off owes nothing after its last."""
    groups = {call.group for rank in run.ranks for call in rank.of(Collective)}
    for group in sorted(groups):
        members = [run.ranks[number] for number in group if number < len(run.ranks)]
        sequences = [[call for call in rank.of(Collective) if call.group == group] for rank in members]
        for number, calls in enumerate(zip_longest(*sequences)):
            differ = len({_kind(call) for call in calls if call}) > 1
            if differ or (None in calls and all(call or _owes(rank) for call, rank in zip(calls, members))):
                done = [_instead(call, rank, run.place) for call, rank in zip(calls, members)]
                told = "; ".join(f"rank {rank.rank} {doing}" for rank, (doing, _) in zip(members, done))
                return Parting(number + 1, told, tuple(place for _, place in done))
            if None in calls:
                break
    return None


def _owes(rank: RankStory) -> bool:
    """Whether a rank has left out a call: it is through, or waits for something else."""
    if rank.computing:
        return False
    lost = rank.failure is not None and rank.failure.lost_peer
    return rank.ended == "finished" or (not rank.ended and (lost or not rank.failure))


def _instead(call: Collective | None, rank: RankStory, otherwise: Location) -> tuple[str, Location]:
    if call is not None:
        place = location(call.place, otherwise)
        shape = f" of {list(call.shape)} {call.dtype}" if call.dtype else ""
        return f"calls {call.op}{shape} at {at(place)}", place
    return ("is through", otherwise) if rank.ended else _wait(rank, otherwise)


def _kind(call: Collective) -> tuple[object, ...]:
    same_shape = call.op in ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor")
    return call.op, call.root, *((call.shape, call.dtype) if same_shape else ())


def at(place: Location) -> str:
    return f"{place.path}:{place.line}" if place.path else "an unknown place"


@dataclass(frozen=True, slots=True)
class Death:
    """A rank that died by its own fault. `unused` are weights that got no gradient, where that is why."""

    rank: int
    error: str
    traceback: str
    place: Location
    unused: tuple[str, ...] = ()


def deaths(run: RankRun) -> list[Death]:
    """Those who only lost the others are not among them."""
    found = []
    for story in run.ranks:
        failure: Failure | None = story.failure
        if failure and not failure.lost_peer:
            place = location(failure.place, run.place)
            found.append(Death(story.rank, failure.error, failure.traceback, place, failure.unused))
        elif not story.ended and not failure and ("Fatal Python error" in story.stack or story.killed):
            told = f"it was ended by {story.killed}" if story.killed else "it crashed"
            line = next((line for line in story.stack.splitlines() if "Fatal Python error" in line), told)
            found.append(Death(story.rank, line, story.stack, _stack_place(story.stack) or run.place))
    return found


def waiting(run: RankRun) -> list[tuple[RankStory, str, Location]]:
    """What the ranks did that came to no end and did not die by themselves."""
    dead = {death.rank for death in deaths(run)}
    return [(story, *_wait(story, run.place)) for story in run.ranks if not story.ended and story.rank not in dead]


def _wait(story: RankStory, otherwise: Location) -> tuple[str, Location]:
    if story.open is not None and not (story.failure and story.failure.place != story.open.place):
        place = location(story.open.place, otherwise)
        return f"waits in {story.open.op} at {at(place)}", place
    if story.failure:
        place = location(story.failure.place, otherwise)
        return f"waits for the others at {at(place)}", place
    place = _stack_place(story.stack) or otherwise
    return (f"is at {at(place)}" if place.path else "is nowhere to be seen"), place


def _stack_place(stack: str) -> Location | None:
    """The innermost line of the user's in a dump of the main thread."""
    main = stack.rpartition("Current thread")[2] or stack
    for line in main.splitlines():
        path, _, rest = line.strip().removeprefix('File "').partition('"')
        if line.strip().startswith('File "') and is_users(path):
            number = rest.partition("line ")[2].partition(" ")[0]
            return Location(as_given(path), int(number) if number.isdigit() else 0)
    return None
