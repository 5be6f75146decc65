"""The parent's end of one worker: starts it, talks with it, reads what it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcheck.trial.channel import CHANNEL, DUMP_STACKS, STACKS, TOKEN
from mlcheck.trial.child import child_command
from mlcheck.trial.processes import signal_name

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker is told. `sets` are query files by name, `subsets` (set, numbers) by name."""

    entry: str
    sets: dict[str, str]
    seed: int = 0
    subsets: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    folder: str = "."
    start_limit_s: float = 300.0
    query_timeout_s: float = 30.0


class WorkerProcess:
    """One worker, from its start to its end."""

    def __init__(self, job: Job, number: int, threads: int, tickets: int, folder: Path, token: str) -> None:
        self.number = number
        self.loaded: dict[str, Any] = {}
        self.answer: dict[str, Any] = {}
        self.record = Path()
        self._folder = folder
        inbox, channel = os.pipe()
        os.set_blocking(inbox, False)
        self.inbox, self._unread = inbox, b""
        told = {"entry": job.entry, "sets": job.sets, "subsets": job.subsets, "seed": job.seed + number}
        self._stacks, self._errors = folder / f"worker-{number}.stacks", folder / f"worker-{number}.err"
        with open(self._stacks, "wb") as stacks, open(self._errors, "wb") as errors:
            names = {CHANNEL: str(channel), STACKS: str(stacks.fileno()), TOKEN: token}
            self.process = subprocess.Popen(  # noqa: S603 - to run the user's own code is the purpose
                child_command("mlcheck.load.worker", json.dumps(told | {"tickets": tickets})),
                cwd=job.folder,
                env={**os.environ, **names, **dict.fromkeys(THREAD_VARIABLES, str(threads))},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(channel, stacks.fileno(), tickets),
                start_new_session=True,
            )
        os.close(channel)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, command: dict[str, Any]) -> None:
        self.answer = {}
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> None:
        """Read what has come; the last whole message of each kind is kept."""
        try:
            data = os.read(self.inbox, 1 << 20)
        except BlockingIOError:
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("kind") in {"loaded", "mistake", "broken"}:
                self.loaded = message
            elif message.get("kind") in {"done", "failed"}:
                self.answer = message

    def stop(self, dump_stack: bool = False) -> str:
        """Kill the worker and what it started. Returns its Python stacks if asked for, and it still ran."""
        if dump_stack and self.alive:
            with suppress(ProcessLookupError):
                self.process.send_signal(DUMP_STACKS)
            for _ in range(10):
                time.sleep(0.05)
                if self._stacks.stat().st_size:
                    time.sleep(0.05)
                    break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self._stacks.read_text(errors="replace")[-_TAIL:]

    def release(self) -> None:
        os.close(self.inbox)
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()

    def epitaph(self) -> str:
        code = self.process.returncode
        return f"was ended by {signal_name(-code)}" if code < 0 else f"left with exit code {code}"

    @property
    def stderr(self) -> str:
        return self._errors.read_text(errors="replace")[-_TAIL:]
