"""The lines of the user's that loading stands on, and whether they read samples, join them, or hand them over."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import mlcheck
from mlcheck.core.finding import Location
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.trial.observe.stacks import Frame, Stack, Stacks

_FETCH = "_utils/fetch.py"
_DEFAULT_COLLATE = "_utils/collate.py"
_LOCKS = "multiprocessing/synchronize.py"
_SHOWN = 3
OURS = str(Path(mlcheck.__file__).resolve().parent)


@dataclass(frozen=True, slots=True)
class LoadingLines:
    """Shares of the looks at whoever loads: in `reading` samples, in `collating` them; the rest waits to be asked.

    `locking` is the share in which loading waits for a lock of multiprocessing's. `lines` are the user's own, most
    often seen first, with their shares of reading and collating; `collate` is where their own collate_fn begins.
    `tool` is what looked, empty where nothing did; `why_not` is about py-spy.
    """

    tool: str = ""
    reading: float = 0.0
    collating: float = 0.0
    lines: tuple[tuple[Location, float], ...] = ()
    why_not: str = ""
    seen: int = field(default=0, compare=False)
    collate: Location = field(default_factory=Location)
    locking: float = 0.0

    @property
    def line(self) -> Location:
        return self.lines[0][0] if self.lines else Location()


def loading_lines(stacks: Stacks, loader: Any) -> LoadingLines:
    """Of the workers where there are any, else of the trainer."""
    in_workers = _has_workers(stacks, loader)
    looked = stacks.workers if in_workers else stacks.trainer
    total = looked.total()
    if not total:
        return LoadingLines(stacks.tool, why_not=stacks.why_not)
    collate = _code(getattr(loader, "collate_fn", None))
    kinds: Counter[str] = Counter()
    lines: Counter[Location] = Counter()
    for stack, count in looked.items():
        kind, inner = _kind(stack, collate, in_worker=in_workers)
        kinds[kind] += count
        kinds["locking"] += count * bool(kind and stack[-1].file.endswith(_LOCKS))
        if kind and (place := users_line(inner)):
            lines[place] += count
    at_work = max(kinds["reading"] + kinds["collating"], 1)
    return LoadingLines(
        tool=stacks.tool,
        reading=kinds["reading"] / total,
        collating=kinds["collating"] / total,
        lines=tuple((place, count / at_work) for place, count in lines.most_common(_SHOWN)),
        why_not=stacks.why_not,
        seen=total,
        collate=_beginning(collate),
        locking=kinds["locking"] / total,
    )


def _has_workers(stacks: Stacks, loader: Any) -> bool:
    """Whether the other processes load: a program has servers and loggers of its own as well."""
    fetching = any(frame.file.endswith(_FETCH) for stack in stacks.workers for frame in stack)
    return bool(stacks.workers) and (fetching or bool(getattr(loader, "num_workers", 0)))


def _kind(stack: Stack, collate: CodeType | None, in_worker: bool) -> tuple[str, Stack]:
    """What is done there, and the frames below DataLoader's own: those above are where a worker was forked."""
    fetch = next((index for index, frame in enumerate(stack) if frame.file.endswith(_FETCH)), None)
    if fetch is None:
        ours = max((index for index, frame in enumerate(stack) if frame.file.startswith(OURS)), default=-1)
        return ("" if in_worker else "reading"), stack[ours + 1 :]
    inner = stack[fetch + 1 :]
    if any(frame.file.endswith(_DEFAULT_COLLATE) or _is(frame, collate) for frame in inner):
        return "collating", inner
    return "reading", inner


def _is(frame: Frame, code: CodeType | None) -> bool:
    if code is None or frame.file != code.co_filename:
        return False
    return frame.name.rpartition(".")[2] == code.co_name


def _code(function: Any) -> CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    found = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    return found if isinstance(found, CodeType) else None


def _beginning(code: CodeType | None) -> Location:
    if code is None or not is_users(code.co_filename):
        return Location()
    return Location(as_given(code.co_filename), code.co_firstlineno, symbol=code.co_qualname)


def users_line(stack: Stack) -> Location | None:
    """The innermost line of the user's own."""
    for frame in reversed(stack):
        if is_users(frame.file):
            return Location(as_given(frame.file), frame.line, symbol=frame.name.replace("<locals>.", ""))
    return None
