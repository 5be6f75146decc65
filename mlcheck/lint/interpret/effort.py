"""How far the interpretation of one root goes before it is given up, in whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcheck.lint.interpret.frames import Frame
    from mlcheck.lint.program import FunctionInfo

MAX_DEPTH = 16
STEPS_PER_ROOT = 16_000
_PATIENCE = 1_200
_FEW = 300
_WASTE, _WASTE_PER_FILE = 10_000, 20


class OutOfSteps(Exception):
    """The root has used up its steps; what was seen so far stands."""


class Abandoned(Exception):
    """The call of this frame led far and to nothing: it is given up, with its result unknown."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class Effort:
    """The steps left to a root. `landmarks` counts facts, `promises` says which functions can come to one."""

    def __init__(self, landmarks: Callable[[], int], promises: Callable[[FunctionInfo], bool]) -> None:
        self.steps = STEPS_PER_ROOT
        self._landmarks, self._promises = landmarks, promises
        self.alarm = self._seen = 0
        self._given = self._before = self._wasted = 0

    def restart(self, steps: int) -> None:
        """Begin a new root with so many steps."""
        self.steps, self.alarm = steps, max(0, steps - _PATIENCE)
        self._given, self._before = steps, self._landmarks()

    def settle(self) -> None:
        """End a root: what it took counts as wasted when no fact came of it."""
        if self._landmarks() == self._before:
            self._wasted += self._given - self.steps

    def share(self, steps: int, files: int, judged: bool) -> int:
        """The steps for a function that nobody calls: few, once many were wasted on others of little promise."""
        return steps if judged or self._wasted < _WASTE + _WASTE_PER_FILE * files else min(steps, _FEW)

    def look_up(self, frames: Sequence[Frame]) -> None:
        """What to do when the steps left fall below `alarm`.

        Many steps later: when no fact came of them, give up the innermost call that took a large part of them.

        Calls that can come to a fact, by the names they call, are seen through.
        """
        if self.steps <= 0:
            raise OutOfSteps
        facts, before = self._landmarks(), self._seen
        self._seen, self.alarm = facts, max(0, self.steps - _PATIENCE)
        if facts > before:
            return
        for frame in reversed(frames):
            if frame.info is not None and frame.steps - self.steps > _PATIENCE // 3 and not self._promises(frame.info):
                raise Abandoned(frame)
