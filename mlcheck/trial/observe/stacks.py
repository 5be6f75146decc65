"""Python stacks of this process and of its workers: by py-spy from outside, or by a thread inside of each of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_RATE = 50
_PAUSE_S = 0.01
_WRITE_S = 0.25
_FRAME = re.compile(r"^(?P<name>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    name: str


Stack = tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """How often each stack was seen, outermost frame first. `trainer` and `workers` are those of main threads,

    `others` those of the workers' other threads. `tool` looked; `why_not` says why py-spy did not.
    """

    tool: str
    trainer: Counter[Stack] = field(default_factory=Counter)
    workers: Counter[Stack] = field(default_factory=Counter)
    others: Counter[Stack] = field(default_factory=Counter)
    why_not: str = ""


def py_spy() -> str:
    """The program, beside this interpreter or on the path; empty where it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy") or ""


def spied(meanwhile: Callable[[], None], seconds: float, folder: Path) -> Stacks:
    """What py-spy sees of this process and its children in `seconds`, while `meanwhile` runs, again where it has ended.

    On a busy machine py-spy begins late. It looks without stopping anybody. `why_not` is filled where it is missing,
    or may not look.
    """
    tool = py_spy()
    if not tool:
        return Stacks("", why_not="py-spy is not installed")
    out = folder / "stacks.txt"
    asked = ["record", "--pid", str(os.getpid()), "--subprocesses", "--idle", "--threads", "--full-filenames"]
    how = ["--nonblocking", "--rate", str(_RATE), "--duration", str(max(1, round(seconds))), "--format", "raw"]
    try:
        process = subprocess.Popen(  # noqa: S603 - the profiler, with our own arguments
            [tool, *asked, *how, "--output", str(out)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        return Stacks("", why_not=f"py-spy cannot be started: {error.strerror}")
    try:
        meanwhile()
        late = time.monotonic() + _GRACE_S
        while process.poll() is None and time.monotonic() < late:
            meanwhile()
        _, said = process.communicate(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        return Stacks("", why_not="py-spy did not come to an end")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode or not out.exists():
        return Stacks("", why_not=_refusal(said.decode(errors="replace")))
    return parsed(out.read_text(encoding="utf-8", errors="replace"), os.getpid())


def _refusal(said: str) -> str:
    if "ermission" in said or "ptrace" in said.lower():
        return "py-spy may not look into processes here (ptrace is not permitted: SYS_PTRACE in a container)"
    lines = [line for line in said.splitlines() if line.strip()]
    return f"py-spy failed: {lines[-1].strip()[:200]}" if lines else "py-spy failed"


def parsed(raw: str, pid: int) -> Stacks:
    """py-spy's raw format: `process 7:"python x";thread (9): MainThread;f (file:3);g (file:5) 12`.

    A command line that has line breaks in it is printed with them.
    """
    found = Stacks("py-spy")
    for line in re.split(r"\n(?=process \d+:)", raw) if raw.startswith("process ") else raw.splitlines():
        text, _, count = line.rstrip().rpartition(" ")
        process, thread, frames = pid, "", []
        for part in text.split(";"):
            if part.startswith("process "):
                process = int(part[8:].partition(":")[0])
            elif part.startswith("thread ("):
                thread = part.partition("): ")[2]
            elif match := _FRAME.match(part):
                frames.append(Frame(match["file"], int(match["line"] or 0), match["name"]))
        group = found.others if thread != "MainThread" else found.trainer if process == pid else found.workers
        if frames and count.isdigit() and (process != pid or thread == "MainThread"):
            group[tuple(frames)] += int(count)
    return found


class Sampler:
    """A thread that looks at where the thread that made it stands; for where py-spy cannot look."""

    def __init__(self) -> None:
        self.seen: Counter[Stack] = Counter()
        self._watched, self._stop = threading.get_ident(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Counter[Stack]:
        self._thread.start()
        return self.seen

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(_PAUSE_S):
            self.seen[stack_of(self._watched)] += 1


def stack_of(thread: int) -> Stack:
    """Where a thread of this process stands, outermost frame first."""
    frame, frames = sys._current_frames().get(thread), []
    while frame is not None:
        frames.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname))
        frame = frame.f_back
    return tuple(reversed(frames))


@dataclass(frozen=True, slots=True)
class SampledWorker:
    """A worker's `worker_init_fn`: the user's own, then a thread that writes into `folder` where the worker stands."""

    folder: str
    users: Callable[[int], Any] | None

    def __call__(self, number: int) -> None:
        if self.users is not None:
            self.users(number)
        target = Path(self.folder) / f"worker-{os.getpid()}.json"
        threading.Thread(target=_write_looks, args=(threading.get_ident(), target), daemon=True).start()


def _write_looks(watched: int, target: Path) -> None:
    seen: Counter[Stack] = Counter()
    due = time.monotonic() + _WRITE_S
    with suppress(OSError):  # the folder goes when the measurement ends
        while target.parent.exists():
            time.sleep(_PAUSE_S)
            seen[stack_of(watched)] += 1
            if time.monotonic() >= due:
                due = time.monotonic() + _WRITE_S
                rows = [
                    [count, [[frame.file, frame.line, frame.name] for frame in stack]] for stack, count in seen.items()
                ]
                partial = target.with_suffix(".part")
                partial.write_text(json.dumps(rows), encoding="utf-8")
                partial.replace(target)


def worker_looks(folder: Path) -> Counter[Stack]:
    """What the workers of `SampledWorker` have written."""
    seen: Counter[Stack] = Counter()
    for file in folder.glob("worker-*.json"):
        for count, frames in json.loads(file.read_text(encoding="utf-8")):
            seen[tuple(Frame(name, line, symbol) for name, line, symbol in frames)] += count
    return seen
