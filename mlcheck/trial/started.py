"""In a process of its own: starts a program as it is asked to, each time in a fork, up to its first training step."""

from __future__ import annotations

import errno
import json
import linecache
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which every optimizer loads: here once for all forks
from torch.optim.optimizer import register_optimizer_step_post_hook

from mlcheck.core.cores import cores
from mlcheck.trial.channel import SCRATCH, TOKEN, connect
from mlcheck.trial.config import MissingHyperparameter
from mlcheck.trial.cpu_shim import CpuShim, advice
from mlcheck.trial.find import load_trial
from mlcheck.trial.memory import MemoryGuard
from mlcheck.trial.processes import kill_group, oom_kills, signal_name
from mlcheck.trial.script.coroutine import on_common_ground
from mlcheck.trial.traceback import error_line, user_frame, user_traceback
from mlcheck.trial.trackers import Trackers
from mlcheck.trial.trial import Declined, EntryError, EntryOptions, NotReached, RejectedConfig, is_program

_TICK_S = 0.01
_NO_MEMORY = re.compile(
    r"out of (?:shared )?memory|allocate memory|ALLOC_FAILED|not enough memory|killed by signal: (?:Killed|Bus)",
    re.IGNORECASE,
)
_NEEDS_GPU = re.compile(
    r"cuda|nccl|nvidia|\bgpus?\b|\b(?:mps|xpu|hpu)\b|not implemented for '(?:Half|BFloat16)'", re.IGNORECASE
)
_FOR_GPUS = {"apex", "bitsandbytes", "causal_conv1d", "deepspeed", "flash_attn", "mamba_ssm", "triton", "xformers"}
_NETWORK = ("requests.", "urllib3.", "urllib.error.", "http.client.", "httpx.", "huggingface_hub.", "socket.")
_COMPILER = ("torch._dynamo.", "torch._inductor.")
_FULL = {errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE}

Told = dict[str, Any]
Job = Mapping[str, Any]


def main(text: str) -> None:
    """Answer requests until there is an empty one."""
    channel, job = connect(), json.loads(text)
    scratch = Path(os.environ[SCRATCH])
    for name in job["modules"] if job["forks"] else ():
        with suppress(Exception):  # whoever needs it, is told
            import_module(name)
    with open(job["requests"], encoding="utf-8") as requests:
        channel.send({"ready": True})
        for number, line in enumerate(requests):
            if not (request := json.loads(line)):
                break
            options = EntryOptions.read(request["options"])
            folder = scratch / f"start-{number}"
            folder.mkdir()
            told = _forked(job, options, folder, request["seconds"]) if job["forks"] else _start(job, options, folder)
            channel.send({"start": told})
            if not job["forks"]:
                break
    channel.finish()


def _forked(job: Job, options: EntryOptions, folder: Path, seconds: float) -> Told:
    """Start it in a fork and see how that ends; nothing of it is left."""
    killed = oom_kills()
    process = os.fork()
    if not process:
        try:
            os.setpgid(0, 0)
            _write(folder, _start(job, options, folder))
        finally:
            os._exit(0)
    with suppress(OSError):  # whichever of the two is first
        os.setpgid(process, process)
    why, status = _awaited(process, options, seconds)
    kill_group(process)
    if why:
        os.waitpid(process, 0)
        return _unknown(why)
    told = _read(folder)
    if told is not None:
        return told
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number and oom_kills() > killed:
        return _unknown("the system ran out of memory")
    if not number and not os.WEXITSTATUS(status):
        return _unknown("the program left by itself before its first training step")
    ended = f"was ended by {signal_name(number)}" if number else f"exited with code {os.WEXITSTATUS(status)}"
    return _fails(f"the process {ended}", ended)


def _awaited(process: int, options: EntryOptions, seconds: float) -> tuple[str, int]:
    """Why the fork has to be ended, empty where it has ended; and how it did."""
    guard, mark = MemoryGuard(options.memory_limit, early=True), _mark().encode()
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return "", status
        if guard.complaint(mark):
            return "it ran out of memory on this machine", 0
        if time.monotonic() > end:
            return "it did not come to its first training step in time", 0
        time.sleep(_TICK_S)


def _mark() -> str:
    """That of the examination as a whole, whose memory is one."""
    outer, _, own = os.environ[TOKEN].rpartition(",")
    return f"{TOKEN}={outer or own}"


def _start(job: Job, options: EntryOptions, folder: Path) -> Told:
    os.environ[SCRATCH] = str(folder)
    torch.set_num_threads(min(torch.get_num_threads(), cores(), 4))
    if options.cpu_shim:
        CpuShim().install()
    Trackers(str(folder)).install()
    if job["by_itself"]:
        _leave_at_first_step(folder)
    found: list[Told] = []

    def start() -> None:
        found.append(_one_step(job["entry"], options))

    try:
        on_common_ground(start) if is_program(job["entry"]) else start()
    except BaseException as error:
        return _judged(error, job["by_itself"])
    return found[0]


def _leave_at_first_step(folder: Path) -> None:
    """A program that runs by itself has shown all that is asked for when its optimizer has stepped."""
    process = os.getpid()

    def leave(*_: object) -> None:
        if os.getpid() == process:
            _write(folder, _starts())
            os._exit(0)

    register_optimizer_step_post_hook(leave)


def _one_step(entry: str, options: EntryOptions) -> Told:
    trial = load_trial(entry, options)
    for batch in trial.train_batches():
        trial.train_step(batch, 0)
        return _starts()
    empty = "the training loader gives no batch"
    return _unknown(f"{empty}, of what --prep leaves") if options.prep else _fails(empty, empty)


def _judged(error: BaseException, by_itself: bool) -> Told:
    """What an exception says about the values it was started with."""
    if isinstance(error, RejectedConfig):
        return _told("rejected", str(error))
    if isinstance(error, EntryError) and error.__cause__ is not None:
        error = error.__cause__
    if why := _excuse(error):
        return _unknown(f"{why}: {error_line(error)}")
    if isinstance(error, NotReached):
        return _unknown(str(error))
    if isinstance(error, EntryError) and by_itself and not isinstance(error, Declined | MissingHyperparameter):
        return _unknown(str(error))
    place = user_frame(error.__traceback__) or ("", 0)
    if isinstance(error, EntryError):
        return _told("fails", error.told if isinstance(error, Declined) else str(error), type(error).__name__, place)
    return _told("fails", error_line(error), type(error).__name__, place, user_traceback(error))


def _excuse(error: BaseException) -> str:
    """Why it is this machine's fault, or that of its surroundings; empty where it is not."""
    for one in _chain(error):
        named = f"{type(one).__module__}.{type(one).__qualname__}"
        number = getattr(one, "errno", None)
        if isinstance(one, MemoryError) or _NO_MEMORY.search(str(one)):
            return "it ran out of memory on this machine"
        if isinstance(one, OSError) and number in _FULL:
            return "this machine has too little for it"
        if isinstance(one, ConnectionError | TimeoutError) or named.startswith(_NETWORK):
            return "what it asks of the network did not come"
        if named.startswith(_COMPILER):
            return "it was not compiled on this machine"
        if advice(one) or (not torch.cuda.is_available() and _asks_for_gpu(one)):
            return "it asks for what this machine's devices lack"
    return ""


def _asks_for_gpu(error: BaseException) -> bool:
    """By what it says, or by the user's line: `assert torch.cuda.is_available()` says nothing."""
    place = user_frame(error.__traceback__)
    missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    line = linecache.getline(*place) if place else ""
    return missing in _FOR_GPUS or any(_NEEDS_GPU.search(text) for text in (str(error), line))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _starts() -> Told:
    return _told("starts")


def _unknown(why: str) -> Told:
    return _told("unknown", why)


def _fails(error: str, kind: str) -> Told:
    return _told("fails", error, kind)


def _told(how: str, error: str = "", kind: str = "", place: tuple[str, int] = ("", 0), traceback: str = "") -> Told:
    return {"how": how, "error": error, "kind": kind, "place": place, "traceback": traceback}


def _write(folder: Path, told: Told) -> None:
    (folder / "unfinished").write_text(json.dumps(told), encoding="utf-8")
    os.replace(folder / "unfinished", folder / "told")


def _read(folder: Path) -> Told | None:
    path = folder / "told"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
