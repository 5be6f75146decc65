"""What a program written for torchrun finds when it is run by itself: one rank of one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed
from torch._C._distributed_c10d import HashStore

ONE_OF_ONE = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "GROUP_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


@dataclass
class Alone:
    """Stands before `torch.distributed.init_process_group` from `install` on; `meets` once a program called it."""

    meets: bool = False

    def install(self) -> None:
        before = distributed.init_process_group
        original = getattr(before, "original", before)  # of an earlier program of this process

        def init_process_group(backend: Any = None, *args: Any, **settings: Any) -> None:
            self.meets = True
            if os.environ.get("WORLD_SIZE") != "1" or distributed.is_initialized():
                original(backend, *args, **settings)
                return
            asked = str(backend or "")
            usable = "nccl" not in asked or torch.cuda.is_available()
            original(asked if usable and asked else "gloo", store=HashStore(), rank=0, world_size=1)

        init_process_group.original = original  # type: ignore[attr-defined]
        distributed.init_process_group = init_process_group
        distributed.distributed_c10d.init_process_group = init_process_group

    def expects_launcher(self, error: Exception) -> bool:
        """Whether a program asked for what only a launcher tells it; then it is told that it is alone."""
        asked = isinstance(error, KeyError) and error.args and error.args[0] in ONE_OF_ONE
        if "RANK" in os.environ or not (asked or ("environment variable" in str(error) and "expected" in str(error))):
            return False
        os.environ.update(ONE_OF_ONE)
        return True
