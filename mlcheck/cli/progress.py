"""Shows a waiting person that something is happening."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    started = time.monotonic()
    bar = progress()
    shown: list[Show | None] = []

    def show(done: int, total: int) -> None:
        if not shown and time.monotonic() - started > _PATIENCE_S:
            shown.append(bar.__enter__())
        if shown and shown[0]:
            shown[0](label, done, total)

    try:
        yield show
    finally:
        if shown:
            bar.__exit__(None, None, None)
