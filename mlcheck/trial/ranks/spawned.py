"""A script that starts its ranks by itself: the function it gives to `torch.multiprocessing.spawn` is run here.

Here is one process, with the number of the rank it stands for; the others are other processes, or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import multiprocessing

from mlcheck.trial.ranks.alone import ONE_OF_ONE


@dataclass
class Spawned:
    """Stands before `torch.multiprocessing.spawn` from `install` on. `processes` is how many a program asked for."""

    processes: int | None = None

    def install(self, rank: int = 0, alone: bool = True) -> None:
        """Unless `alone`, the environment tells already who the others are."""
        owner: Any = multiprocessing
        before = owner.spawn
        original = getattr(before, "original", before)  # of an earlier program of this process

        def spawn(
            fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True,
            daemon: bool = False, start_method: str = "spawn",
        ) -> Any:  # fmt: skip
            del daemon, start_method
            self.processes = nprocs
            if alone:
                os.environ.update(ONE_OF_ONE)
            fn(rank, *args)
            return None if join else _Over()

        spawn.original = original  # type: ignore[attr-defined]
        owner.spawn = spawn


class _Over:
    """What is asked of processes that are not joined: they have ended."""

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:  # noqa: ARG002
        return True
