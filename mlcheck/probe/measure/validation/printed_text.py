"""What a program prints and logs, and the metrics to be read in it: found by which numbers change with the outputs."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

_NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z][-@])([-+]?(?:\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)(?![a-z]))(?:\s*/\s*(\d+))?(\s*%)?",
    re.IGNORECASE,
)
_WORDS = {
    "accuracy": r"acc|accuracy|acc@1|acc1|top1|top-1",
    "f1": r"f1|f1-score|f1score",
    "precision": r"precision",
    "recall": r"recall",
    "auc": r"auc|auroc",
}
_METRIC = {
    kind: re.compile(rf"(?:^|[^a-z0-9])(?:{words})(?![a-z0-9@])", re.IGNORECASE) for kind, words in _WORDS.items()
}
_OTHER = re.compile(r"(?:^|[^a-z])(?:best|train|training|trn|balanced|target|top[-_]?5)(?:[^a-z]|$)", re.IGNORECASE)
_HELD_OUT = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|test|eval|dev)(?![a-z])", re.IGNORECASE)
_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")


class Heard:
    """While entered, keeps the text that goes to the two output streams, to `logging`, TensorBoard and wandb."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._stack = ExitStack()

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in re.split(r"[\r\n]+", "".join(self._parts)) if line.strip()]

    def __enter__(self) -> Self:
        for stream in {id(one): one for one in (sys.stdout, sys.stderr)}.values():
            self._lead(stream, "write", lambda text: self._parts.append(str(text)))
        self._lead(logging.Logger, "handle", lambda _, record: self._say(record.getMessage()))
        for name in _WRITERS:
            if (module := sys.modules.get(name)) is not None:
                self._lead(module.SummaryWriter, "add_scalar", lambda _, tag, value, *__: self._say(f"{tag}: {value}"))
        if (wandb := sys.modules.get("wandb")) is not None and hasattr(wandb, "log"):
            self._lead(wandb, "log", lambda told, *_: [self._say(f"{name}: {value}") for name, value in told.items()])
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _say(self, text: str) -> None:
        self._parts.append(f"\n{text}\n")

    def _lead(self, owner: Any, name: str, hear: Callable[..., object]) -> None:
        original, own = getattr(owner, name), name in vars(owner)

        def led(*args: Any, **kwargs: Any) -> Any:
            try:
                hear(*args, **kwargs)
            except Exception:  # called in a way of its own: not heard
                self._parts.append("")
            return original(*args, **kwargs)

        setattr(owner, name, led)
        self._stack.callback(*((setattr, owner, name, original) if own else (delattr, owner, name)))


@dataclass(frozen=True, slots=True)
class Value:
    """A number as it is printed. `unit` is what its last digit stands for; `shares` is what it may be as a share."""

    text: str
    shares: tuple[float, ...]
    unit: float

    def is_one_of(self, expected: tuple[float, ...], room: float) -> bool:
        return any(abs(mine - theirs) <= self.unit + room for mine in self.shares for theirs in expected)


@dataclass(frozen=True, slots=True)
class Printed:
    """A metric in the same line of two texts. `held_out` says that it is named as one of held-out data."""

    kind: str
    line: str
    one: Value
    other: Value
    held_out: bool

    @property
    def changes(self) -> bool:
        return self.one.shares != self.other.shares


def metrics_in(one: list[str], other: list[str]) -> list[Printed]:
    """The metrics that both texts hold, by kind and by the line they stand in, in its last occurrence."""
    found: dict[tuple[str, str], Printed] = {}
    theirs = _by_form(other)
    for form, lines in _by_form(one).items():
        if form in theirs:
            found |= {(printed.kind, form): printed for printed in _in_line(lines[-1], theirs[form][-1])}
    return list(found.values())


def _by_form(lines: list[str]) -> dict[str, list[str]]:
    """Lines by what is left of them without their numbers."""
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(_NUMBER.sub("#", line), []).append(line)
    return found


def _in_line(one: str, other: str) -> Iterator[Printed]:
    pairs = [(before, mine, theirs) for (before, mine), (_, theirs) in zip(_numbers(one), _numbers(other))]
    named = [(kind, pair) for pair in pairs if (kind := _kind(pair[0]))]
    yield from (Printed(kind, one, mine, theirs, bool(_HELD_OUT.search(said))) for kind, (said, mine, theirs) in named)
    changed = [pair for pair in pairs if pair[1].shares != pair[2].shares]
    if len(changed) != 1 or any(pair in changed for _, pair in named):
        return
    said, mine, theirs = changed[0]  # `Accuracy on 10000 images: 83 %`
    if (kind := _kind(one)) and mine.text.endswith("%") and "loss" not in said:
        yield Printed(kind, one, mine, theirs, False)


def _kind(text: str) -> str:
    """The metric that is named last in a text; empty for one of other data, and without any."""
    if _OTHER.search(text):
        return ""
    places = [(match.start(), kind) for kind, word in _METRIC.items() for match in word.finditer(text)]
    return max(places, default=(0, ""))[1]


def _numbers(line: str) -> Iterator[tuple[str, Value]]:
    """Each number with the words between the one before and it."""
    end = 0
    for match in _NUMBER.finditer(line):
        yield line[end : match.start()], _value(match)
        end = match.end()


def _value(match: re.Match[str]) -> Value:
    number, total, percent = match.groups()
    digits = len(number.lower().partition("e")[0].partition(".")[2])
    value, unit = float(number), 10.0**-digits
    if total is not None:
        return Value(match[0], (value / float(total),) if float(total) else (), 0.0)
    if percent:
        return Value(match[0], (value / 100,), unit / 100)
    return Value(match[0], (value, value / 100) if value > 1 else (value,), unit if value <= 1 else unit / 100)
