"""One task after the other, or several at once: the answers are the same, and come in the same order."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from importlib import import_module

from mlcheck.lint.files.reading import Text
from mlcheck.lint.work.asking import ask
from mlcheck.lint.work.tasks import Done, Part, Piece, Said, Task

CAN_FORK = sys.platform == "linux"  # elsewhere, system libraries do not survive it
MOST_COPIED = 25_000_000  # bytes of source: trees take 15 times as much, and a process copies those it touches
WORTH_A_FORK, WORTH_A_START = 300_000, 4_000_000  # bytes of source: below, several processes take longer than one


def answered(texts: Sequence[Text], tasks: Sequence[Task], jobs: int, done: Done) -> Generator[Said, None, None]:
    """The answer to each task, in their order. `done` is told of each as soon as it is there.

    Raises WorkerLost.
    """
    if jobs > 1 and sum(_weight(texts, task) for task in tasks) >= _least():
        from mlcheck.lint.work.crew import Crew
        from mlcheck.lint.work.workers import hire

        pieces = _pieces(texts, tasks, jobs)
        shared = _is_shared(texts, pieces)
        if CAN_FORK and shared:
            _prepare(texts, pieces)
        workers = hire(min(jobs, len(pieces)), texts, CAN_FORK) if shared else []
        if workers:
            try:
                yield from Crew(workers, texts, tasks, pieces, done).answers()
            finally:
                _release(texts)  # not before: copies of this process share the memory
            return
    for task in tasks:
        said = ask([texts[number] for number in task.group.members], task)
        _release(texts[number] for number in task.group.members)
        done(task)
        yield said


def _release(texts: Iterable[Text]) -> None:
    for text in texts:
        text.release()


def _least() -> int:
    return WORTH_A_FORK if CAN_FORK else WORTH_A_START


def _weight(texts: Sequence[Text], task: Task) -> int:
    """The size of its files; little where none is about torch, and rules have nothing to say."""
    data = [texts[number].data for number in task.group.members]
    size = sum(map(len, data))
    return size if any(b"torch" in each for each in data) else size // 10


def _pieces(texts: Sequence[Text], tasks: Sequence[Task], jobs: int) -> list[Piece]:
    """What can be done at once, the largest first.

    A group too large for its share is asked in two parts, by copies of this process, which have its syntax trees;
    but not where these, and what the copies touch of them, would fill the memory.
    """
    weights = [_weight(texts, task) for task in tasks]
    share = max(sum(weights) / jobs, WORTH_A_FORK)
    pieces = []
    for position in sorted(range(len(tasks)), key=lambda position: -weights[position]):
        split = CAN_FORK and share < weights[position] <= MOST_COPIED
        parts = (Part.EVENTS, Part.SITES) if split else (Part.ALL,)
        pieces += [Piece(position, tasks[position]._replace(part=part)) for part in parts]
    return pieces


def _is_shared(texts: Sequence[Text], pieces: Sequence[Piece]) -> bool:
    """Whether there is work beside the largest piece: a copy that did it alone would double the memory."""
    weights = [_weight(texts, piece.task) for piece in pieces]
    return sum(weights) - max(weights) >= _least() / 4


def _prepare(texts: Sequence[Text], pieces: Sequence[Piece]) -> None:
    """Do now what several copies of this process would have to do otherwise."""
    from mlcheck.core.check import find_checks
    from mlcheck.lint import checks

    import_module("mlcheck.lint.engine")
    find_checks(checks)
    for piece in pieces:
        for number in piece.task.group.members if piece.task.part is Part.EVENTS else ():
            texts[number].outline()
