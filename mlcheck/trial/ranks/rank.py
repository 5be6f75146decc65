"""One rank: runs the program under watch and writes down what it does. Started by torch.distributed.run."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from mlcheck.trial.channel import DUMP_STACKS, die_with_parent
from mlcheck.trial.cpu_shim import CpuShim
from mlcheck.trial.find import load_trial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.ranks import joined
from mlcheck.trial.ranks.collectives import CollectiveWatch
from mlcheck.trial.ranks.devices import DeviceWatch
from mlcheck.trial.ranks.drive import drive
from mlcheck.trial.ranks.files import FileWatch
from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.launch import RankJob
from mlcheck.trial.ranks.loaders import LoaderWatch
from mlcheck.trial.ranks.models import Enough, ModelWatch
from mlcheck.trial.ranks.spawned import Spawned
from mlcheck.trial.ranks.story import NOWHERE, Failure
from mlcheck.trial.script.outputs import Outputs
from mlcheck.trial.script.program import program
from mlcheck.trial.traceback import error_line, user_frame, user_traceback
from mlcheck.trial.trackers import Trackers
from mlcheck.trial.trial import is_program

_MOST_STEPS = 24
_LINGER_S = 0.6
_LOST_PEER = re.compile(
    r"connection (closed|reset)|timed out|timeout|broken pipe|connection refused|socket|peer|no progress", re.IGNORECASE
)


def main(text: str) -> None:
    """Run the job as the rank that the environment says, and leave with 0 where all was seen."""
    die_with_parent()
    job, rank = RankJob(**json.loads(text)), int(os.environ["RANK"])
    folder = Path(job.scratch)
    journal = Journal(folder / f"rank-{rank}.jsonl")
    _redirect(folder, rank)
    torch.set_num_threads(1)
    Trackers(job.scratch).install()
    code = 0
    try:
        _Rank(job, journal, folder).run()
    except BaseException as error:  # the program may raise SystemExit
        code, failure = 1, _failure(error)
        journal.note(failure)
        if failure.lost_peer:
            time.sleep(_LINGER_S)  # the launcher ends the others with this one: where they are is to be seen before
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that the program left running hold nothing up


def _redirect(folder: Path, rank: int) -> None:
    output = os.open(folder / f"rank-{rank}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    stacks = open(folder / f"rank-{rank}.stacks", "w")  # noqa: SIM115 - open as long as the process
    faulthandler.enable(stacks)
    faulthandler.register(DUMP_STACKS, stacks, all_threads=True)


class _Rank:
    def __init__(self, job: RankJob, journal: Journal, folder: Path) -> None:
        self._job, self._journal, self._folder = job, journal, folder

    def run(self) -> None:
        journal, job = self._journal, self._job
        journal.tell("pid", os.getpid())
        if job.cpu_shim:
            CpuShim().install()
        DeviceWatch(journal).install()
        Spawned().install(int(os.environ["RANK"]), alone=False)
        meet = _meet_on_gloo(timedelta(seconds=job.patience), lambda: journal.tell("communicates", True))
        os.chdir(job.folder)
        seed_all(job.seed)
        if is_program(job.entry):
            outputs = Outputs(self._folder)  # the same for all ranks, which read what one of them wrote
            outputs.install()
            try:
                self._watch(program(job.entry, tuple(job.arguments)).run)
            finally:
                outputs.uninstall()
            return
        meet()
        joined.compare(job, journal)
        distributed.barrier()
        self._watch(lambda: drive(load_trial(job.entry, job.options(communicates=True))))

    def _watch(self, program: Callable[[], None]) -> None:
        """Under watch until it ends, or enough is seen."""
        journal = self._journal
        files = FileWatch(journal)
        models = ModelWatch(journal, _MOST_STEPS)
        loaders, collectives = LoaderWatch(journal, models), CollectiveWatch(journal)
        for watch in (files, models, loaders, collectives):
            watch.install()
        ended = "finished"
        try:
            program()
        except Enough:
            ended = "enough"
        except SystemExit as left:
            if left.code not in (None, 0):
                raise
        except RuntimeError as error:
            journal.note(_failure(error, models.unused()))
            raise
        finally:
            loaders.finish_all()
            for watch in (collectives, loaders, models, files):
                watch.remove()
        models.note_step(None)
        journal.tell("ended", ended)


def _failure(error: BaseException, unused: tuple[str, ...] = ()) -> Failure:
    lost = isinstance(error, RuntimeError | ConnectionError) and _LOST_PEER.search(str(error)) is not None
    place = user_frame(error.__traceback__) or NOWHERE
    finished = "finished reduction in the prior iteration" in str(error)
    return Failure(error_line(error, 400), user_traceback(error)[-8000:], place, lost, unused if finished else ())


def _meet_on_gloo(patience: timedelta, on_meet: Callable[[], None]) -> Callable[[], None]:
    """The program's process group, on the CPU, over the launcher's own port, and impatient; `on_meet` when it asks.

    Returns what forms the group unasked, for a program that leaves that to a framework.
    """
    original = distributed.init_process_group
    launched = {name: os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")}

    def meet() -> None:
        os.environ.update(launched)
        if not distributed.is_initialized():
            original("gloo", init_method="env://", timeout=patience)

    def init_process_group(*_: Any, **__: Any) -> None:
        on_meet()
        meet()

    distributed.init_process_group = init_process_group
    distributed.distributed_c10d.init_process_group = init_process_group
    return meet
