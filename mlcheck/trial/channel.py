"""The child's end of `isolate.run_child`: JSON lines to the parent, stack dumps for hangs and crashes."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
from typing import Any

CHANNEL = "MLCHECK_CHANNEL"
STACKS = "MLCHECK_STACKS"
TOKEN = "MLCHECK_CHILD"
SCRATCH = "MLCHECK_SCRATCH"
DUMP_STACKS = signal.SIGXCPU
END = {"end": True}


class Channel:
    """Sends messages to the parent. A process forked from the child is silent: only the child speaks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any], time_limit_s: float | None = None) -> None:
        """Send one message; it restarts the parent's clock, and `time_limit_s` sets it for all that follow."""
        if time_limit_s is not None:
            message = {**message, "time_limit_s": time_limit_s}
        self._write(json.dumps(message, default=_plain))

    def finish(self) -> None:
        """Say that all the work is done: an exit without it is the user's code leaving early."""
        self._write(json.dumps(END))

    def _write(self, line: str) -> None:
        if os.getpid() != self._owner:
            return
        rest = memoryview(line.encode() + b"\n")
        with self._lock:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def _plain(value: Any) -> Any:
    """What the user's objects put into a message: a number of NumPy's or a tensor's, or else its text."""
    return value.item() if getattr(value, "size", None) == 1 and hasattr(value, "item") else str(value)


def connect() -> Channel:
    """Open the channel this process was started with. Raises RuntimeError outside `run_child`."""
    try:
        descriptor, stacks = int(os.environ.pop(CHANNEL)), int(os.environ.pop(STACKS))
    except KeyError:
        raise RuntimeError("this process was not started by mlcheck.trial.isolate.run_child") from None
    os.set_inheritable(descriptor, False)
    os.set_inheritable(stacks, False)
    faulthandler.enable(stacks)
    faulthandler.register(DUMP_STACKS, stacks, all_threads=True)
    die_with_parent()
    return Channel(descriptor)


def die_with_parent() -> None:
    """Linux only: be killed when the parent is (PR_SET_PDEATHSIG); elsewhere the parent's own cleanup must do."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
