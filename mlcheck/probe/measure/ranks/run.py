"""The program really run on several ranks, on the CPU: what each of them did, and how each ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import distributed

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import as_given
from mlcheck.probe.measure.program_text import program_text
from mlcheck.trial.ranks.launch import Launch, launch
from mlcheck.trial.ranks.story import JOINS, Device, JoinedStep, Pass, Place, RankStory, Saved, Step
from mlcheck.trial.trial import Source, Trial

__all__ = ["Device", "JoinedStep", "RankRun", "Saved", "location"]

_SHARE = 0.75
_MOST_SPAWNED = 4
_NEEDS_GPU = re.compile(r"cuda|nccl|nvidia|\bgpus?\b", re.IGNORECASE)
_RANK = re.compile(r"\.distributed\.(?:get_rank|get_size|get_local_rank)\(")  # of Determined's contexts


@dataclass(frozen=True, slots=True)
class RankRun:
    """`ranks` by number. `framework` deals out the data and wraps the models, where the program does not by itself.

    `place` is the program's own.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 95

    ranks: tuple[RankStory, ...]
    framework: str
    place: Location
    seconds: float = 0.0

    @classmethod
    def unfit(cls, trial: Trial) -> str:
        """Programs for one process; those whose ranks cannot be started from here, or not without being asked to."""
        source = trial.source
        if source is None or source.by_trainer:
            return "the program starts its ranks by itself, or cannot be started again"
        world = _world(trial, source)
        if world < 2:
            return "the program is meant for one process: `--only scale` runs it on two ranks"
        if trial.spawns is not None and trial.spawns != world:
            asks = f"`--ranks {trial.spawns}` runs them" if trial.spawns > 1 else "as many as there are GPUs, none here"
            return f"the script starts {trial.spawns} processes by itself: {asks}"
        if trial.spawns and trial.spawns > _MOST_SPAWNED and not source.options.world:
            return f"the script starts {trial.spawns} processes: `--ranks {trial.spawns}` runs that many"
        if not (distributed.is_available() and distributed.is_gloo_available()):
            return "this PyTorch is built without gloo, over which ranks talk on a CPU"
        return ""

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        source, why = trial.source, cls.unfit(trial)
        if source is None or why:
            raise NotMeasured(why)
        launched = launch(source, _world(trial, source), seconds * _SHARE)
        _tell_unusable(source, launched)
        by_itself = source.is_program or any(rank.communicates for rank in launched.ranks)
        framework = "" if by_itself else "mlcheck" if trial.again is None else "the framework"
        return cls(launched.ranks, framework, Location(*trial.entry), launched.end.seconds)

    @property
    def steps(self) -> list[tuple[Step, ...]]:
        """The steps that all ranks came to, each as all ranks took it."""
        together = list(zip(*(rank.of(Step) for rank in self.ranks)))
        if JOINS not in self.ranks[0].notices:
            return together
        trained = [[one.steps for one in rank.of(Pass) if one.backwards] for rank in self.ranks]
        return together[: min((steps[0] for steps in trained if steps), default=0)]  # from then on they are out of step

    @property
    def updates(self) -> int:
        return sum(together[0].optimizer >= 0 for together in self.steps)

    @property
    def whole(self) -> bool:
        """Whether every rank came to an end of its own."""
        return all(rank.ended for rank in self.ranks)


def location(place: Place, otherwise: Location | None = None) -> Location:
    return Location(as_given(place[0]), place[1]) if place[0] else otherwise or Location()


def _world(trial: Trial, source: Source) -> int:
    """How many ranks are asked for, by the user or by the program; 0 where nobody asks for any.

    A trial whose code asks for its rank is meant for several, whatever its config says today.
    """
    several = trial.slots > 1 or (not source.is_program and _RANK.search(program_text(trial)) is not None)
    return source.options.world or (trial.spawns or 2 if several else 0)


def _tell_unusable(source: Source, launched: Launch) -> None:
    """Raises NotMeasured where the run says nothing about the program."""
    ranks = launched.ranks
    if not any(rank.pid for rank in ranks):
        late = f"not within {launched.end.seconds:.0f} s; raise --time-limit"
        error = (launched.end.stderr.strip().splitlines() or [late])[-1]
        raise inconclusive(f"torch.distributed.run did not start the ranks: {error}")
    failures = [rank.failure for rank in ranks if rank.failure and not rank.failure.lost_peer]
    for failure in failures:
        if _NEEDS_GPU.search(failure.error):
            raise inconclusive(f"the program asks for a GPU, and its ranks are run without one: {failure.error}")
    if not any(rank.communicates for rank in ranks) and source.is_program:
        raise NotMeasured("the program does not use torch.distributed: started twice, it runs twice")
