"""Remembers a trial's whole state, puts it back bitwise, and checks that it is back.

State is what a walk finds from the trial's models, optimizers and schedulers and from the user's own objects
(`Trial.objects`), the process's random generators, and the modes of torch, numpy and Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mlcheck.trial.cells import Cell
from mlcheck.trial.modes import process_cells
from mlcheck.trial.trial import Trial
from mlcheck.trial.walk import Walk


@dataclass
class State:
    """What `snapshot` remembered. `unrestored` is filled by `restored`: what could not be put back."""

    cells: list[Cell]
    progress: object
    unrestored: list[str] = field(default_factory=list)


def snapshot(trial: Trial) -> State:
    """Remember the trial's state. A validation under way is ended first, as callbacks may have swapped weights.

    Every snapshot is to be restored: a program that runs by itself starts anew only where none is open.
    """
    progress = trial.progress.snapshot() if trial.progress else None
    try:
        return State([*cells_of(trial), *process_cells()], progress)
    except BaseException:
        if trial.progress:
            trial.progress.restore(progress)
        raise


def cells_of(trial: Trial) -> list[Cell]:
    """Every piece of state that hangs on the trial's objects, as it is now."""
    walk = Walk()
    for group in (trial.models, trial.optimizers, trial.schedulers):
        for name, root in group.items():
            walk.visit(name, root)
    for root in trial.objects:
        walk.visit(type(root).__name__, root, root=True)
    return walk.found


def restore(trial: Trial, state: State) -> None:
    """Put everything back in place: the same Parameter objects, which optimizers hold, with the same bits."""
    try:
        if trial.progress:
            trial.progress.restore(state.progress)
    finally:
        for cell in state.cells:
            with suppress(RuntimeError):  # what cannot be put back is told by `differences`
                cell.restore()


def differences(trial: Trial, state: State) -> list[str]:  # noqa: ARG001 - the cells know their objects
    """What differs bitwise from the snapshot, as `name: what`; empty right after a complete `restore`."""
    changes = ((cell.name, cell.change()) for cell in state.cells)
    return [f"{name}: {change}" for name, change in changes if change]


@contextmanager
def restored(trial: Trial) -> Iterator[State]:
    """Yield the state on entry; on exit put it back and note in its `unrestored` what did not come back."""
    state = snapshot(trial)
    try:
        yield state
    finally:
        restore(trial, state)
        state.unrestored[:] = differences(trial, state)
