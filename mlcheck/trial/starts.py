"""Starts a program many times, each with other values and in a process of its own, up to its first training step."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mlcheck.trial.child import child_command
from mlcheck.trial.isolate import ChildEnd, End, run_child
from mlcheck.trial.search import Combination, started_with
from mlcheck.trial.trial import Source

_GRACE_S = 1.0
_MOST_DEATHS = 3
_LEAST_S = 2.0
_SLOW, _SLOW_S = 5, 10.0  # times as long as others took, and at least so long

# What a process of the program's has loaded of these, all its starts need; none starts threads or a GPU at import.
_SLOW_TO_LOAD = {"lightning", "numpy", "pandas", "pytorch_lightning", "scipy", "sklearn", "torchmetrics", "torchvision"}
_SLOW_TO_LOAD |= {"accelerate", "datasets", "timm", "transformers"}

How = Literal["starts", "fails", "rejected", "unknown"]


@dataclass(frozen=True, slots=True)
class Start:
    """How one start went. `rejected`: the trial itself refused the values; `unknown`: it says nothing about them.

    `error` is one line: what the program raised, or why nothing is known. `kind` is the exception's type, `place` the
    user's line, `traceback` their own.
    """

    how: How
    error: str = ""
    kind: str = ""
    place: tuple[str, int] = ("", 0)
    traceback: str = ""

    def is_same(self, other: Start) -> bool:
        """Whether both failed in the same way; a message may name the values."""
        return self.how == other.how == "fails" and (self.kind, self.place) == (other.kind, other.place)

    @staticmethod
    def read(told: Mapping[str, Any]) -> Start:
        return Start(**{**told, "place": tuple(told["place"])})


NO_TIME = Start("unknown", "there was no time left for it")

Asking = Generator[Combination, Start, None]


def answer_starts(asking: Asking, source: Source, seconds: float) -> None:
    """Start `source` with each combination that `asking` yields, and send it how that went.

    When the time is over, what it asks is answered by NO_TIME until it is done.
    """
    clock = time.monotonic() + seconds
    asked = _Asked(asking, source, clock)
    deaths = 0
    while asked.waits and time.monotonic() + _LEAST_S < clock and deaths < _MOST_DEATHS:
        before = asked.answered
        end = _child(asked, source, clock - time.monotonic())
        if end.how is not End.FINISHED or asked.answered == before:
            deaths += 1
            asked.answer(Start("unknown", _died(end)))
    while asked.waits:
        asked.answer(NO_TIME)


class _Asked:
    """What is to be started next."""

    def __init__(self, asking: Asking, source: Source, end: float) -> None:
        self._asking, self._source, self._end = asking, source, end
        self.answered = 0
        self._since = self._longest = 0.0
        self.waits = True
        self._next: Combination = {}
        self._advance(None)

    def line(self) -> bytes:
        """The next request as the child reads it; an empty one where there is none, or no time."""
        left = self._end - time.monotonic()
        if not self.waits or left < _LEAST_S:
            return b"{}\n"
        source = self._source.options
        options = (started_with(source, self._next) if self._next else source).plain()
        self._since = time.monotonic()
        seconds = min(left, max(_SLOW * self._longest, _SLOW_S)) if self._longest else left
        return json.dumps({"options": options, "seconds": seconds}).encode() + b"\n"

    def answer(self, start: Start) -> None:
        self.answered += 1
        if start.how == "starts":
            self._longest = max(self._longest, time.monotonic() - self._since)
        self._advance(start)

    def _advance(self, start: Start | None) -> None:
        try:
            self._next = next(self._asking) if start is None else self._asking.send(start)
        except StopIteration:
            self.waits = False


def _child(asked: _Asked, source: Source, seconds: float) -> ChildEnd:
    """A process that imports what all starts need and is forked for each (Linux); elsewhere it lives for one."""
    with tempfile.TemporaryDirectory(prefix="mlcheck-starts-") as folder:
        requests = Path(folder) / "requests"
        os.mkfifo(requests)
        pipe = os.open(requests, os.O_RDWR)  # so that neither end waits for the other to be opened

        def hear(message: dict[str, Any]) -> None:
            if "start" in message:
                asked.answer(Start.read(message["start"]))
            os.write(pipe, asked.line())

        job = {
            "entry": source.entry,
            "by_itself": source.runs_by_itself,
            "requests": str(requests),
            "forks": sys.platform == "linux",
            "modules": [name for name in sys.modules if name.partition(".")[0] in _SLOW_TO_LOAD],
        }
        try:
            return run_child(
                child_command("mlcheck.trial.started", json.dumps(job)),
                time_limit_s=seconds + _GRACE_S,
                cwd=source.folder,
                on_message=hear,
                environment={"CUDA_LAUNCH_BLOCKING": "1"},  # an assertion on a GPU is raised where it is
            )
        finally:
            os.close(pipe)


def _died(end: ChildEnd) -> str:
    last = (end.stderr.strip().splitlines() or [""])[-1]
    return f"{end}{f': {last}' if last else ''}"
