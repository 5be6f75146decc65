"""Several processes at work on one list of tasks: each takes the next piece as soon as it is free."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Iterator, Sequence
from functools import reduce
from queue import Empty, SimpleQueue
from threading import Thread

from mlcheck.core.mistake import Mistake
from mlcheck.lint.files.reading import Text
from mlcheck.lint.work.tasks import Done, Part, Piece, Said, Task
from mlcheck.lint.work.workers import Worker


class WorkerLost(Mistake):
    """A worker process ended before its answer."""


class Crew:
    """The workers, what they have to do, and what they said so far."""

    def __init__(
        self,
        workers: Sequence[Worker],
        texts: Sequence[Text],
        tasks: Sequence[Task],
        pieces: Sequence[Piece],
        done: Done,
    ) -> None:
        self._workers, self._texts, self._tasks, self._done = workers, texts, tasks, done
        self._todo: SimpleQueue[Piece | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Piece, Said | Worker]] = SimpleQueue()
        self._said: list[dict[Part, Said]] = [{} for _ in tasks]
        self._open = [0] * len(tasks)
        for piece in pieces:
            self._give(piece)

    def _give(self, piece: Piece) -> None:
        self._open[piece.position] += 1
        self._todo.put(piece)

    def answers(self) -> Iterator[Said]:
        """What was said of each task, in their order. Raises WorkerLost; whatever is raised, no worker stays."""
        threads = [Thread(target=self._drive, args=(worker,), daemon=True) for worker in self._workers]
        for thread in threads:
            thread.start()
        try:
            for position in range(len(self._tasks)):
                while self._open[position]:
                    self._take(*self._next())
                yield _joined(self._said[position])
        finally:
            for worker in self._workers:
                if any(self._open):
                    worker.kill()
                self._todo.put(None)
            for thread in threads:
                thread.join()
            for worker in self._workers:
                worker.end()

    def _drive(self, worker: Worker) -> None:
        """Keep one worker busy; where it is lost, hand it back in place of an answer."""
        while (piece := self._todo.get()) is not None:
            try:
                said: Said | Worker = worker.ask(piece.task, self._texts)
            except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                said = worker
            self._results.put((piece, said))
            if said is worker:
                return

    def _next(self) -> tuple[Piece, Said | Worker]:
        while True:
            try:
                return self._results.get(timeout=1)  # without a limit, Ctrl-C would go unheard on Windows
            except Empty:
                continue

    def _take(self, piece: Piece, said: Said | Worker) -> None:
        if isinstance(said, Worker):
            raise self._lost(said, piece.task)
        self._said[piece.position][piece.task.part] = said
        if said.left:  # only a process that interprets the program can tell
            self._give(Piece(piece.position, piece.task._replace(part=Part.ALL, rules=tuple(said.left))))
        self._open[piece.position] -= 1
        if not self._open[piece.position]:
            self._done(self._tasks[piece.position])

    def _lost(self, worker: Worker, task: Task) -> WorkerLost:
        first, *others = (self._texts[number].path for number in task.group.members)
        what = f"{first} and {len(others)} more" if others else first
        worker.kill()
        code = worker.end()
        try:
            how = f"was killed ({signal.Signals(-code).name})"
        except ValueError:
            how = f"ended with exit code {code}"
        return WorkerLost(f"a lint process {how} while it read {what}: run it with `--jobs 1`, which takes less memory")


def _joined(parts: dict[Part, Said]) -> Said:
    """One answer of the parts; what was left of one part was interpreted again, and broke there as before."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    if again := parts.pop(Part.ALL, None):
        again.failures = [(rule, failure) for rule, failure in again.failures if rule]
        return reduce(Said.joined, [parts[Part.EVENTS], parts[Part.SITES], again])
    return parts[Part.EVENTS].joined(parts[Part.SITES])
