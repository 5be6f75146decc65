"""A training step once more, told line by line by torchsnooper or pysnooper, up to the line where it goes wrong."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

from torch import Tensor, nn

from mlcheck.core.finding import Figure, Location
from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.modules import Arguments, ModuleWatch
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.probe.measure.values import LONGEST, tensor_told, told
from mlcheck.trial.trial import NotReached, Trial

MOST_LINES = 2000
SECONDS = 8.0
BEFORE = 40
AFTER = 6
_TOOLS = ("torchsnooper", "pysnooper")
_EVENT = re.compile(r"^( *)\S+ +(?:call|line|return|exception) +(\d+) (.*)$")
_VALUE = re.compile(r"^( *)(Starting var|New var|Modified var|Return value):\.* (.*)$")
_WRONG = re.compile(r"[\d,]+ (?:NaN|inf)\b|= (?:nan|inf)$")


@dataclass(frozen=True, slots=True)
class Account:
    """The lines told, the last ones first cut. `place` and `said` are those of the first value that is NaN or +inf."""

    tool: str
    lines: tuple[str, ...] = ()
    place: Location = field(default_factory=Location)
    source: str = ""
    said: str = ""

    def figure(self) -> tuple[Figure, ...]:
        """Nothing where no line was told."""
        if not self.lines:
            return ()
        title = f"the step once more, line by line ({self.tool})"
        return (Figure("text", title, {"text": "\n".join(self.lines)}),)


@dataclass(slots=True)
class _Teller:
    """Follows what the tracer writes. A value is told before the line after it, so its line is the frame's last."""

    lines: list[str] = field(default_factory=list)
    wrong_at: int = -1
    place: Location = field(default_factory=Location)
    source: str = ""
    said: str = ""
    _path: str = ""
    _current: dict[str, tuple[str, int, str]] = field(default_factory=dict)

    def write(self, text: str) -> None:
        for line in text.rstrip("\n").splitlines():
            if "Source path:" in line:
                self._path = line.partition("Source path:... ")[2]
                line = line.replace(self._path, as_given(self._path))
            elif event := _EVENT.match(line):
                self._current[event[1]] = (self._path, int(event[2]), event[3].strip())
                line = f"{event[1]}{int(event[2]):>5}  {event[3]}"
            elif (value := _VALUE.match(line)) and self.wrong_at < 0 and _WRONG.search(line):
                self._wrong(value[1], value[3])
                line = f"{line}   <-- the first value that is no finite number"
            self.lines.append(line[: LONGEST + 60])
        if len(self.lines) > 2 * MOST_LINES and self.wrong_at < 0:
            del self.lines[:MOST_LINES]

    def _wrong(self, indent: str, said: str) -> None:
        path, number, source = self._current.get(indent, (self._path, 0, ""))
        self.place = Location(as_given(path), number) if path else Location()
        self.wrong_at, self.source, self.said = len(self.lines), source, said

    @property
    def done(self) -> bool:
        return 0 <= self.wrong_at < len(self.lines) - AFTER

    def account(self, tool: str) -> Account:
        end = self.wrong_at + AFTER if self.wrong_at >= 0 else len(self.lines)
        shown = self.lines[max(0, end - BEFORE) : end + 1]
        return Account(tool, tuple(shown), self.place, self.source, self.said)


class _Words:
    """What values are, as `told` says it; a tensor that stays as it is from line to line is summed up once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ReferenceType[Tensor], int, bool, str]] = {}

    def __call__(self, value: object) -> str:
        if not isinstance(value, Tensor) or value.is_inference():
            return told(value)
        tensor, version, required, words = self._known.get(id(value), (None, 0, False, ""))
        if tensor is None or tensor() is not value or (version, required) != (value._version, value.requires_grad):
            words = told(value)
            self._known[id(value)] = ref(value), value._version, value.requires_grad, words
        return words


def retold(trial: Trial, step: int) -> Account | None:
    """Train again up to `step` and tell that one; the trial must stand where the run began, with the same seed."""
    for index, batch in enumerate(islice(repeated_batches(trial), step + 1)):
        if index == step:
            return told_line_by_line(lambda: trial.train_step(batch, step))  # noqa: B023 - called at once
        trial.train_step(batch, index)
    return None


def told_line_by_line(step: Callable[[], object]) -> Account | None:
    """Run `step` under the tracer, whatever it raises; None where neither package is installed."""
    teller = _Teller()
    made = _tracer(teller.write)
    if made is None:
        return None
    tool, tracer = made
    tracing = _Tracing(tracer, teller)
    with suppress(Exception, NotReached), tracing, ModuleWatch(tracing.join):
        step()
    return teller.account(tool)


def _tracer(write: Callable[[str], None]) -> tuple[str, Any] | None:
    """torchsnooper's, where it imports (it needs pkg_resources), with this package's own words for values."""
    for tool in _TOOLS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                snoop = import_module(tool).snoop
        except ImportError:
            continue
        formats = {"tensor_format": tensor_told} if tool == "torchsnooper" else {}
        tracer = snoop(write, max_variable_length=LONGEST, color=False, **formats)
        tracer.custom_repr = ((lambda _: True, _Words()),)
        return tool, tracer
    return None


class _Tracing:
    """While entered, the user's own functions are traced, each as it is called.

    `join` takes in what already runs, where a program is driven from its own loop.
    """

    def __init__(self, tracer: Any, teller: _Teller) -> None:
        self._tracer, self._teller, self._clock = tracer, teller, Clock(SECONDS)
        self._active = False

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        self._active = True
        import_module("pysnooper.tracer").thread_global.depth = -1
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        self._active = False
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._active or self._teller.done or not self._clock.left():
            return None
        if event == "call" and is_users(frame.f_code.co_filename):
            self._tracer.target_codes.add(frame.f_code)
        return self._trace if self._tracer.trace(frame, event, argument) else None

    def join(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        frame: FrameType | None = sys._getframe() if self._active else None
        joined = False
        while frame is not None:
            if is_users(frame.f_code.co_filename) and frame.f_trace is None:
                self._tracer.target_frames.add(frame)
                frame.f_trace = self._trace
                joined = True
            frame = frame.f_back
        if joined:  # from Python 3.12 on, a frame that lay idle when tracing began is traced only after a new beginning
            sys.settrace(None)
            sys.settrace(self._trace)
        return args, kwargs
