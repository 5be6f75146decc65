"""The other end of `mlcheck.lint.work.workers`: a process that answers one task after another."""

from __future__ import annotations

import pickle
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import IO

from mlcheck.lint.files.reading import Text
from mlcheck.lint.work.answers import Failure
from mlcheck.lint.work.asking import ask
from mlcheck.lint.work.collector import without_cycle_collector
from mlcheck.lint.work.tasks import Said, Task


def serve(tasks: IO[bytes], answers: IO[bytes], texts: Sequence[Text] | None = None) -> None:
    """Answer each task that comes, until there are no more; without `texts`, those of its group come with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever sent for this process ends it
    with without_cycle_collector():
        while True:
            try:
                task, sent = pickle.load(tasks)  # noqa: S301 - from the process that began this one
            except EOFError:
                return
            own = [texts[number] for number in task.group.members] if texts is not None else sent
            pickle.dump(_answer(own, task), answers)
            answers.flush()


def _answer(texts: Sequence[Text], task: Task) -> Said:
    try:
        return ask(texts, task)
    except Exception as error:
        reason = f"mlcheck itself failed: {type(error).__name__}: {error}"
        return Said(failures=[("", Failure(reason, traceback.format_exc()))])
    finally:
        for text in texts:
            text.release()


def main() -> None:
    """Serve at standard input and output."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
