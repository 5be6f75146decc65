"""Runs user code in a child process that may crash, hang, exit or be killed without taking mlcheck along."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from mlcheck.trial.channel import CHANNEL, DUMP_STACKS, END, SCRATCH, STACKS, TOKEN
from mlcheck.trial.memory import MemoryGuard
from mlcheck.trial.processes import busy_seconds, kill_group, kill_marked, oom_kills, signal_name, termination_raises
from mlcheck.trial.warden import warden

_TAIL = 16_384
_TICK_S = 0.05
_GRACE_S = 5.0
_NO_WINDOWS = {"MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}  # a program is begun many times, and nobody looks


class End(StrEnum):
    """How a child process ended."""

    FINISHED = "finished"
    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    STOPPED_FOR_MEMORY = "stopped-for-memory"


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How the child ended. FINISHED means that it said so itself (`Channel.finish`), whatever its exit code.

    `exit_code` is None where a signal ended it; `signal` is its name (`SIGSEGV`), empty for a timeout.
    `limit_s` is the time limit in force at the end, `busy` how many processors it used or waited for in the latter half
    of it, of a child that was stopped; `memory` says why it was stopped for what it held. `stack` holds the Python
    stacks at a hang or crash, `stdout` and `stderr` the last 16 KiB of what the child wrote.
    """

    how: End
    exit_code: int | None
    signal: str
    limit_s: float
    seconds: float
    stack: str
    stdout: str
    stderr: str
    busy: float = 0.0
    memory: str = ""

    def __str__(self) -> str:
        if self.how is End.EXIT:
            return f"the process exited with code {self.exit_code} before its work was done (sys.exit or os._exit)"
        if self.how is End.SIGNAL:
            return f"the process was ended by {self.signal}"
        if self.how is End.TIMEOUT:
            return f"nothing was heard from the process for {self.limit_s:g} s, so it was stopped"
        if self.how is End.OUT_OF_MEMORY:
            return "the system ran out of memory and killed the process"
        if self.how is End.STOPPED_FOR_MEMORY:
            return f"the process was stopped: {self.memory}"
        return "the process finished"


def run_child(
    argv: list[str],
    *,
    time_limit_s: float,
    cwd: str | Path,
    on_message: Callable[[dict[str, Any]], None],
    memory: MemoryGuard | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> ChildEnd:
    """Run `argv` and hand every message of its `channel.connect()` to `on_message`, until it has ended.

    `environment` is added to this one's. The child is stopped when `time_limit_s` pass without a message (a message may
    change the limit), or when `memory` complains.
    Its temporary files go to a folder that is removed with it. It runs in a session of its own; whatever it
    started is killed with it, also when this function is left by an exception (Ctrl-C, SIGTERM, an error in
    `on_message`), or when this process is killed. Raises OSError if it cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder, termination_raises():
        child = _Child(argv, Path(cwd), Path(folder), time_limit_s, memory, environment)
        with warden(child.leader, child.mark, Path(folder)):
            try:
                child.listen(on_message)
            finally:
                child.kill()
        return child.end()


class _Child:
    def __init__(
        self, argv: list[str], cwd: Path, folder: Path, limit_s: float, memory: MemoryGuard | None,
        environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.limit_s = limit_s
        self._memory, self._complaint = memory, ""
        self.finished = self.timed_out = False
        self._busy = 0.0
        self._environment = environment
        self._folder = folder
        self._started = time.monotonic()
        self._oom_kills = oom_kills()
        outer = os.environ.get(TOKEN)  # of which this one is the beginning, so that whoever kills that finds this
        self._token = f"{outer},{uuid.uuid4().hex}" if outer else uuid.uuid4().hex
        self.mark = f"{TOKEN}={self._token}"
        self._inbox, channel = os.pipe()
        os.set_blocking(self._inbox, False)
        self._unread = b""
        with (
            open(folder / "stacks", "wb") as stacks,
            open(folder / "out", "wb") as out,
            open(folder / "err", "wb") as err,
        ):
            try:
                self._process = self._start(argv, cwd, channel, stacks, out, err)
            except BaseException:
                os.close(self._inbox)
                raise
            finally:
                os.close(channel)
        self.leader = self._process.pid  # of a group of its own

    def _start(
        self, argv: list[str], cwd: Path, channel: int, stacks: IO[bytes], out: IO[bytes], err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        temporary = self._folder / "tmp"
        temporary.mkdir()
        names = {
            CHANNEL: str(channel),
            STACKS: str(stacks.fileno()),
            TOKEN: self._token,
            SCRATCH: str(self._folder),
            "TMPDIR": str(temporary),
            "PYTHONUNBUFFERED": "1",
        }
        return subprocess.Popen(  # noqa: S603 - to run the user's own code is the purpose
            argv,
            cwd=cwd,
            env={**os.environ, **_NO_WINDOWS, **self._environment, **names},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=(channel, stacks.fileno()),
            start_new_session=True,
        )

    def listen(self, on_message: Callable[[dict[str, Any]], None]) -> None:
        """Until the child has exited, or has been silent for too long, or hangs after saying that it is done."""
        heard = time.monotonic()
        halfway: tuple[float, float] | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(self._inbox, selectors.EVENT_READ)
            while True:
                running = self._process.poll() is None
                if running and self._memory and (complaint := self._memory.complaint(self.mark.encode())):
                    self._complaint = complaint
                    return
                if not selector.get_map():
                    time.sleep(_TICK_S)
                elif selector.select(_TICK_S if running else 0):
                    if not self._receive(on_message):
                        selector.unregister(self._inbox)
                    heard, halfway = time.monotonic(), None
                    continue
                if not running:
                    return
                now = time.monotonic()
                if halfway is None and now - heard > self.limit_s / 2:
                    halfway = now, busy_seconds(self._process.pid)
                if now - heard > (_GRACE_S if self.finished else self.limit_s):
                    self.timed_out = not self.finished
                    if halfway and now > halfway[0]:
                        self._busy = (busy_seconds(self._process.pid) - halfway[1]) / (now - halfway[0])
                    return

    def _receive(self, on_message: Callable[[dict[str, Any]], None]) -> bool:
        """Read what is there and hand over the whole lines; False at the end of the stream."""
        data = os.read(self._inbox, 1 << 20)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = _message(line)
            if message == END:
                self.finished = True
            elif message is not None:
                self.limit_s = message.pop("time_limit_s", self.limit_s)
                on_message(message)
        return bool(data)

    def kill(self) -> None:
        """Kill the child and all it started; a child that hangs dumps its Python stacks first."""
        if (self.timed_out or self._complaint) and self._process.poll() is None:
            self._dump_stacks()
        kill_group(self._process.pid)
        self._process.wait()
        kill_marked(self.mark.encode())
        os.close(self._inbox)

    def _dump_stacks(self) -> None:
        """Ask for the dump and wait until the file has stopped growing, half a second at most."""
        self._process.send_signal(DUMP_STACKS)
        size = 0
        for _ in range(10):
            time.sleep(_TICK_S)
            before, size = size, (self._folder / "stacks").stat().st_size
            if size and size == before:
                return

    def end(self) -> ChildEnd:
        code = self._process.returncode
        number = -code if code < 0 else 0
        return ChildEnd(
            how=self._how(number),
            exit_code=code if code >= 0 else None,
            signal=signal_name(number) if number and not (self.timed_out or self._complaint or self.finished) else "",
            limit_s=self.limit_s,
            seconds=time.monotonic() - self._started,
            stack=_tail(self._folder / "stacks"),
            stdout=_tail(self._folder / "out"),
            stderr=_tail(self._folder / "err"),
            busy=self._busy,
            memory=self._complaint,
        )

    def _how(self, number: int) -> End:
        if self.finished:
            return End.FINISHED
        if self.timed_out:
            return End.TIMEOUT
        if self._complaint:
            return End.STOPPED_FOR_MEMORY
        if number == signal.SIGKILL and oom_kills() > self._oom_kills:
            return End.OUT_OF_MEMORY
        return End.SIGNAL if number else End.EXIT


def _message(line: bytes) -> dict[str, Any] | None:
    """The message in a line; None for anything the user's code wrote into the pipe by accident."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode(errors="replace")
