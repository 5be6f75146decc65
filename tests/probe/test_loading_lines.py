"""The lines that loading stands on, as py-spy or a thread in each process saw them."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from mlcheck.core.finding import Location
from mlcheck.probe.measure.speed.loading_lines import loading_lines
from mlcheck.trial.observe.stacks import Frame, Stacks, parsed


def test_a_lock_between_processes_is_seen_in_the_stacks() -> None:
    waits = (
        Frame("/t/_utils/fetch.py", 5, "fetch"), Frame("/home/u/data.py", 20, "get"),
        Frame("/lib/multiprocessing/synchronize.py", 95, "__enter__"),
    )  # fmt: skip
    lines = loading_lines(Stacks("mlcheck", workers=Counter({waits: 3, waits[:2]: 1})), None)
    assert (lines.locking, lines.reading) == (0.75, 1.0)


RAW = f"""\
process 7:"python train.py";thread (7): MainThread;main (/home/u/train.py:9);wait (selectors.py:4) 5
process 7:"python train.py";process 8:"python train.py";thread (8): MainThread;_worker_loop (/t/_utils/worker.py:3);\
_MapDatasetFetcher.fetch (/t/_utils/fetch.py:5);Set.__getitem__ (/home/u/data.py:20);read ({os.__file__}:1) 30
process 7:"python train.py";process 8:"python train.py";thread (8): MainThread;_worker_loop (/t/_utils/worker.py:3);\
_MapDatasetFetcher.fetch (/t/_utils/fetch.py:7);default_collate (/t/_utils/collate.py:5) 10
process 7:"python train.py";process 8:"python train.py";thread (8): MainThread;main (/home/u/train.py:9);\
_worker_loop (/t/_utils/worker.py:3);poll (selectors.py:4) 60
process 7:"python train.py";process 8:"python train.py";thread (9): QueueFeederThread;_feed (queues.py:2) 100
"""


def test_stacks_of_py_spy_tell_reading_joining_and_waiting() -> None:
    stacks = parsed(RAW, 7)
    assert (stacks.trainer.total(), stacks.workers.total(), stacks.others.total()) == (5, 100, 100)
    lines = loading_lines(stacks, None)
    assert (lines.reading, lines.collating) == (0.3, 0.1)
    assert lines.line == Location("/home/u/data.py", 20, symbol="Set.__getitem__")


def join(samples: list[Any]) -> list[Any]:
    return samples


class Loader:
    collate_fn = staticmethod(join)


def test_the_users_own_collate_is_known_by_its_code() -> None:
    stack = (Frame("/t/_utils/fetch.py", 5, "fetch"), Frame(__file__, join.__code__.co_firstlineno + 1, "join"))
    lines = loading_lines(Stacks("py-spy", workers=Counter({stack: 4})), Loader())
    assert (lines.reading, lines.collating) == (0.0, 1.0)
    assert (lines.collate.line, lines.collate.symbol) == (join.__code__.co_firstlineno, "join")


def test_another_process_of_the_program_is_no_worker() -> None:
    server = (Frame("/lib/multiprocessing/forkserver.py", 280, "main"), Frame("/lib/selectors.py", 4, "select"))
    reads = (Frame("/home/u/train.py", 9, "main"), Frame("/home/u/data.py", 20, "slow"))
    stacks = Stacks("py-spy", trainer=Counter({reads: 4}), workers=Counter({server: 40}))
    assert loading_lines(stacks, None).line == Location("/home/u/data.py", 20, symbol="slow")
