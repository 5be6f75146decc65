"""Stands in for `determined.core.DistributedContext`: one process, or one rank of several, which may have to guess."""

from __future__ import annotations

from typing import Any

from torch import distributed


class DistributedContext:
    """Rank `rank` of `size` on one machine. Everything gathered is this rank's own, as often as there are ranks."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = self.local_rank = rank
        self.size = self.local_size = size
        self.cross_rank, self.cross_size = 0, 1

    def get_rank(self) -> int:
        return self.rank

    def get_local_rank(self) -> int:
        return self.local_rank

    def get_size(self) -> int:
        return self.size

    def get_num_agents(self) -> int:
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any] | None:
        return self.allgather(stuff) if self.rank == 0 else None

    def gather_local(self, stuff: Any) -> list[Any] | None:
        return self.gather(stuff)

    def allgather(self, stuff: Any) -> list[Any]:
        return [stuff] * self.size

    def allgather_local(self, stuff: Any) -> list[Any]:
        return self.allgather(stuff)

    def broadcast(self, stuff: Any) -> Any:
        return stuff

    def broadcast_local(self, stuff: Any = None) -> Any:
        return stuff

    def close(self) -> None: ...


class CommunicatingContext(DistributedContext):
    """The same on ranks that have a process group."""

    def gather(self, stuff: Any) -> list[Any] | None:
        gathered = self.allgather(stuff)
        return gathered if self.rank == 0 else None

    def allgather(self, stuff: Any) -> list[Any]:
        gathered: list[Any] = [None] * self.size
        distributed.all_gather_object(gathered, stuff)
        return gathered

    def broadcast(self, stuff: Any) -> Any:
        held = [stuff]
        distributed.broadcast_object_list(held, src=0)
        return held[0]

    def broadcast_local(self, stuff: Any = None) -> Any:
        return self.broadcast(stuff)
