"""Shows a waiting person that something is happening."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

Show = Callable[[str, int, int], None]
_PATIENCE_S = 1.0


@contextmanager
def progress() -> Iterator[Show | None]:
    """A bar on standard error while a person is looking; None, and nothing shown, otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda label, done, total: bar.update(task, description=label, completed=done, total=total)


@contextmanager
def patient_progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """The same for what is over in a moment as a rule: the bar comes only when it is not."""
    if not sys.stderr.isatty():
        yield None
        return
    import threading  # a run that nobody watches does without

    with ExitStack() as stack:
        waiting = _Waiting(label, stack, threading.Lock())
        timer = threading.Timer(_PATIENCE_S, waiting.begin)
        timer.daemon = True
        timer.start()
        try:
            yield waiting.show
        finally:
            timer.cancel()
            waiting.end()


class _Waiting:
    """A bar that another thread begins: the work may be at one thing for long, and has no time to look at a clock."""

    def __init__(self, label: str, stack: ExitStack, lock: threading.Lock) -> None:
        self._label, self._stack = label, stack
        self._lock = lock
        self._over = False
        self._bar: Show | None = None
        self._state = (0, 0)

    def begin(self) -> None:
        with self._lock:
            if not self._over:
                self._bar = self._stack.enter_context(progress())
        self.show(*self._state)

    def show(self, done: int, total: int) -> None:
        self._state = (done, total)
        if self._bar and total:
            self._bar(self._label, done, total)

    def end(self) -> None:
        with self._lock:
            self._over = True
