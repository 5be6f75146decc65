"""Between mlcheck and the ranks: starts the launcher, follows the ranks' journals, ends what hangs. No torch here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcheck.trial.channel import DUMP_STACKS, Channel, connect
from mlcheck.trial.child import HOME, child_command
from mlcheck.trial.processes import busy_seconds, kill_group

_AGENT = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
from mlcheck.trial.channel import die_with_parent
die_with_parent()
del sys.path[0]
sys.argv[0] = "torchrun"
runpy.run_module("torch.distributed.run", run_name="__main__")
"""
_TICK_S = 0.1
_DUMP_S = 0.5
_WINDOW_S = 1.0
_COMPUTES = 0.2  # of a core
_LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")


def main(text: str) -> None:
    """Run the ranks of a job until all have ended, one has failed and the others had time to say so, or all hang."""
    channel, job = connect(), json.loads(text)
    agent = subprocess.Popen(  # noqa: S603 - the launcher, with the user's program below it
        [
            sys.executable,
            "-c",
            _AGENT,
            HOME,
            *_arguments(job["world"]),
            *child_command("mlcheck.trial.ranks.rank", text),
        ],
        env={**{name: value for name, value in os.environ.items() if name not in _LAUNCHED}, **_environment()},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    ranks = _Ranks(Path(job["scratch"]), job["world"], channel)
    patience, end = 2 * float(job["patience"]), time.monotonic() + float(job["limit"])
    while agent.poll() is None:
        if ranks.all_ended() or (ranks.all_began() and ranks.silent_for() > patience) or time.monotonic() > end:
            break
        time.sleep(_TICK_S)
        ranks.read()
        ranks.watch_cores()
    ranks.read()
    if agent.poll() is None:
        ranks.dump_stacks()
        ranks.kill()
        kill_group(agent.pid)
        agent.wait()
    channel.finish()


def _arguments(world: int) -> list[str]:
    return [
        *("--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(world)),
        *("--monitor-interval", "0.1", "--max-restarts", "0", "--no-python"),
    ]


def _environment() -> dict[str, str]:
    """Ranks of one machine talk over its loopback, share its cores, and the launcher tells nobody of its failures.

    They see no GPU: there may be fewer than ranks, and NCCL takes one for each.
    """
    alone = {"CUDA_VISIBLE_DEVICES": "-1", **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {})}
    return {**alone, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "TORCHELASTIC_ENABLE_FILE_TIMER": "0"}


class _Ranks:
    """The journals of all ranks: how far each has come, and when one last said something."""

    def __init__(self, folder: Path, world: int, channel: Channel) -> None:
        self._paths = [folder / f"rank-{rank}.jsonl" for rank in range(world)]
        self._read = [0] * world
        self._ended = [False] * world
        self._pids = [0] * world
        self._channel = channel
        self._dumped = False
        self._heard = time.monotonic()
        self._looked, self._spent, self._computed = self._heard, [0.0] * world, [0.0] * world

    def read(self) -> None:
        """What is new; it restarts the clock."""
        for rank, path in enumerate(self._paths):
            if not path.exists() or path.stat().st_size == self._read[rank]:
                continue
            with open(path, "rb") as file:
                file.seek(self._read[rank])
                new = file.read()
            complete = new[: new.rfind(b"\n") + 1]
            self._read[rank] += len(complete)
            for line in complete.splitlines():
                self._take(rank, json.loads(line))
            self._heard = time.monotonic()
            self._channel.send({"kind": "rank", "rank": rank})

    def _take(self, rank: int, told: dict[str, Any]) -> None:
        if told["kind"] == "pid":
            self._pids[rank] = int(told["of"])
        elif told["kind"] in ("ended", "Failure"):
            self._ended[rank] = True
            if told["kind"] == "Failure" and told["of"]["lost_peer"]:
                self.dump_stacks()

    def watch_cores(self) -> None:
        """Who computes, or would if it had a core, waits for nobody: that restarts the clock, too."""
        now = time.monotonic()
        if now - self._looked < _WINDOW_S:
            return
        spent = [busy_seconds(pid) if pid else 0.0 for pid in self._pids]
        for rank, (before, after) in enumerate(zip(self._spent, spent)):
            if after - before > _COMPUTES * (now - self._looked):
                self._computed[rank] = self._heard = now
        self._looked, self._spent = now, spent

    def _tell_computing(self) -> None:
        """In the journal of each rank that computes as others give it up: it was slow, and may have come."""
        since = time.monotonic() - 2 * _WINDOW_S
        for path, ended, computed in zip(self._paths, self._ended, self._computed):
            if not ended and computed > since:
                with open(path, "a") as file:
                    file.write(json.dumps({"kind": "computing", "of": True}) + "\n")

    def all_began(self) -> bool:
        return all(self._pids)

    def all_ended(self) -> bool:
        return all(self._ended)

    def silent_for(self) -> float:
        return time.monotonic() - self._heard

    def dump_stacks(self) -> None:
        """Where each rank is that has not ended; once, as the first that gives up has waited for them."""
        if self._dumped:
            return
        self._dumped = True
        self._tell_computing()
        waiting = [pid for pid, ended in zip(self._pids, self._ended) if pid and not ended]
        for pid in waiting:
            with suppress(ProcessLookupError):
                os.kill(pid, DUMP_STACKS)
        if waiting:
            time.sleep(_DUMP_S)

    def kill(self) -> None:
        """Each rank leads a session of its own, with the workers of its loaders."""
        for pid in self._pids:
            if pid:
                with suppress(ProcessLookupError):
                    kill_group(os.getpgid(pid))
