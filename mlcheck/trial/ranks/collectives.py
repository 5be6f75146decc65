"""Every collective that the program calls, with where it did: what must be the same on all ranks of a group."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import distributed
from torch.distributed import distributed_c10d

from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.story import Collective
from mlcheck.trial.traceback import user_line

_OPS = (
    *("all_reduce", "reduce", "broadcast", "barrier", "monitored_barrier", "scatter", "gather", "all_gather"),
    *("all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
)
_ROOTS = ("src", "dst", "group_src", "group_dst")


class CollectiveWatch:
    """While installed, notes each collective when it is called and when it has returned; those inside count as one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._inside = False
        self._stack = ExitStack()
        self.called = 0

    def install(self) -> None:
        for op in _OPS:
            original = getattr(distributed_c10d, op, None)
            if original is None:
                continue
            noting = self._noting(op, original)
            for module in (distributed, distributed_c10d):
                self._stack.callback(setattr, module, op, getattr(module, op))
                setattr(module, op, noting)

    def remove(self) -> None:
        self._stack.close()

    def _noting(self, op: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def called(*args: Any, **kwargs: Any) -> Any:
            place = user_line()
            if self._inside or not place[0]:
                return original(*args, **kwargs)
            self._inside = True
            self.called += 1
            self._journal.note(_collective(op, args, kwargs, place))
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False
                self._journal.tell("returned", op)

        return called


def _collective(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], place: tuple[str, int]) -> Collective:
    given = [*args, *kwargs.values()]
    tensor = next((value for value in given if isinstance(value, torch.Tensor)), None)
    roots = [kwargs[name] for name in _ROOTS if isinstance(kwargs.get(name), int)]
    roots += [value for value in args if isinstance(value, int) and not isinstance(value, bool)]
    group = next((value for value in given if isinstance(value, distributed.ProcessGroup)), None)
    return Collective(
        op=op,
        shape=() if tensor is None else tuple(tensor.shape),
        dtype="" if tensor is None else str(tensor.dtype).removeprefix("torch."),
        root=roots[0] if roots and op not in ("barrier", "monitored_barrier") else -1,
        group=_members(group),
        place=place,
    )


def _members(group: Any) -> tuple[int, ...]:
    members: Iterable[int] = distributed.get_process_group_ranks(group)
    return tuple(members)
