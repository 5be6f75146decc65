"""Stands in for `determined.core.DistributedContext` with a single process."""

from __future__ import annotations

from typing import Any


class DistributedContext:
    """Rank 0 of 1: everything gathered is a list of one."""

    rank = 0
    size = 1
    local_rank = 0
    local_size = 1
    cross_rank = 0
    cross_size = 1

    def get_rank(self) -> int:
        return 0

    def get_local_rank(self) -> int:
        return 0

    def get_size(self) -> int:
        return 1

    def get_num_agents(self) -> int:
        return 1

    def gather(self, stuff: Any) -> list[Any]:
        return [stuff]

    def gather_local(self, stuff: Any) -> list[Any]:
        return [stuff]

    def allgather(self, stuff: Any) -> list[Any]:
        return [stuff]

    def allgather_local(self, stuff: Any) -> list[Any]:
        return [stuff]

    def broadcast(self, stuff: Any) -> Any:
        return stuff

    def broadcast_local(self, stuff: Any = None) -> Any:
        return stuff

    def close(self) -> None: ...
