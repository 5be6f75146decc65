"""Processes that share the work: forked where that is safe, else begun anew and given the text of the files."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import IO

from mlcheck.lint.files.reading import Text
from mlcheck.lint.work.tasks import Said, Task

_BEGIN = "import sys; sys.path[:] = {path!r}; from mlcheck.lint.work.worker import main; main()"


class Worker:
    """One process. It is told a task, answers it, and ends when there is nothing more to read."""

    def __init__(self, tasks: IO[bytes], answers: IO[bytes], process: subprocess.Popen[bytes] | int) -> None:
        self._tasks, self._answers, self._process = tasks, answers, process
        self._status: int | None = None

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        return self._tasks, self._answers

    def ask(self, task: Task, texts: Sequence[Text]) -> Said:
        """Its answer; EOFError, OSError or UnpicklingError where it is no more."""
        forked = isinstance(self._process, int)
        pickle.dump((task, None if forked else [texts[number] for number in task.group.members]), self._tasks)
        self._tasks.flush()
        said = pickle.load(self._answers)  # noqa: S301 - from a process of our own
        assert isinstance(said, Said)
        return said

    def kill(self) -> None:
        """End it in the middle of its work."""
        if not isinstance(self._process, int):
            self._process.kill()
        elif self._status is None:
            try:
                os.kill(self._process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def end(self) -> int:
        """Let it go, and wait until it went; return its exit code, which is the negative number of a signal."""
        if self._status is None:
            for pipe in self.pipes:
                try:
                    pipe.close()
                except OSError:  # what a process that is no more did not read
                    pass
            self._status = self._wait()
        return self._status

    def _wait(self) -> int:
        if not isinstance(self._process, int):
            return self._process.wait()
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        except ChildProcessError:  # where SIGCHLD is ignored nothing is told
            return 0


def hire(number: int, texts: Sequence[Text], fork: bool) -> list[Worker]:
    """So many workers, or fewer where the system grants no more processes."""
    workers: list[Worker] = []
    try:
        while len(workers) < number:
            workers.append(_forked(texts, workers) if fork else _begun())
    except OSError:
        pass
    return workers


def _forked(texts: Sequence[Text], others: Sequence[Worker]) -> Worker:
    """A copy of this process: it has the files already, and the trees of those that were parsed."""
    task_end, tasks = os.pipe()
    answers, answer_end = os.pipe()
    with warnings.catch_warnings():
        # The other threads of a lint run draw its progress; the copy draws nothing.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        try:
            from mlcheck.lint.work.worker import serve

            os.close(tasks)
            os.close(answers)
            for other in others:
                for pipe in other.pipes:
                    os.close(pipe.fileno())
            serve(os.fdopen(task_end, "rb"), os.fdopen(answer_end, "wb"), texts)
        finally:
            os._exit(0)
    os.close(task_end)
    os.close(answer_end)
    return Worker(os.fdopen(tasks, "wb"), os.fdopen(answers, "rb"), process)


def _begun() -> Worker:
    command = [sys.executable, "-c", _BEGIN.format(path=sys.path)]
    process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin
    assert process.stdout
    return Worker(process.stdin, process.stdout, process)
