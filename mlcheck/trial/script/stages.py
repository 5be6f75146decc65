"""The trainings of a script one after the other: a teacher's, then the student's. Which is the longer?"""

from __future__ import annotations

from dataclasses import dataclass

from mlcheck.trial.script.requests import LoopKey


@dataclass
class Stage:
    """One training, by the loops that its steps took batches from; it `began` after that many backward passes."""

    loops: frozenset[LoopKey] = frozenset()
    began: int = 0
    steps: int = 0

    def goes_on_in(self, loops: frozenset[LoopKey]) -> bool:
        return loops == self.loops or any(one == other or one.is_later(other) for one in loops for other in self.loops)


class Stages:
    def __init__(self) -> None:
        self._stages: list[Stage] = []
        self.current = Stage()

    def step(self, loops: frozenset[LoopKey], backwards: int) -> None:
        """An optimizer stepped on batches of these loops, after that many backward passes."""
        known = next((stage for stage in self._stages if stage.goes_on_in(loops)), None)
        if known is None:
            known = Stage(loops, backwards - 1)
            self._stages.append(known)
        self.current = known
        known.steps += 1

    @property
    def longer_is_open(self) -> bool:
        """Whether an earlier training took as many steps as the one under way, which may go on."""
        return any(stage.steps >= self.current.steps for stage in self._stages if stage is not self.current)
