"""Which GPU a rank chooses, with or without one."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.story import Device
from mlcheck.trial.traceback import user_line


class DeviceWatch:
    """From `install` on, for the life of the rank, notes `set_device` and the `device_ids` of wrappers."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def install(self) -> None:
        torch.cuda.set_device = self._choosing(torch.cuda.set_device)
        init: Any = DistributedDataParallel.__init__

        def __init__(wrapper: Any, module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            for device in (args[0] if args else kwargs.get("device_ids")) or ():
                self._note(device, "device_ids")
            init(wrapper, module, *args, **kwargs)

        DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign,assignment]

    def _choosing(self, original: Any) -> Any:
        @functools.wraps(original)
        def set_device(device: Any) -> None:
            self._note(device, "set_device")
            original(device)

        return set_device

    def _note(self, device: Any, how: str) -> None:
        index: int | None = device if isinstance(device, int) else torch.device(device).index
        if isinstance(index, int) and user_line()[0]:
            self._journal.note(Device(index, how, user_line()))
