"""Torch modes that belong to the thread, of which a script and its examiner each have their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Ambient:
    """Grad mode, inference mode, autocast and the function modes of one of the two."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    modes: tuple[TorchFunctionMode, ...]


def ambient(besides: tuple[TorchFunctionMode, ...] = ()) -> Ambient:
    """What is in force now; of the function modes those that are not `besides`."""
    stack: list[Any] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return Ambient(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple((torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _DEVICES),
        tuple(mode for mode in stack if not any(mode is other for other in besides)),
    )


def adopt(wanted: Ambient, modes: tuple[TorchFunctionMode, ...]) -> Callable[[], None]:
    """Put `wanted` in force, with `modes` as the whole stack. Returns what leaves its inference mode again."""
    for _ in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
        _pop_mode()  # type: ignore[no-untyped-call]
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]
    guard = torch.inference_mode(wanted.inference) if wanted.inference != torch.is_inference_mode_enabled() else None
    if guard:
        guard.__enter__()
    torch.set_grad_enabled(wanted.grad)
    for device, (enabled, dtype) in zip(_DEVICES, wanted.autocast):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    return (lambda: guard.__exit__(None, None, None)) if guard else lambda: None


class Switch:
    """Exchanges the two ambients whenever control passes from the examiner to the script and back."""

    def __init__(self) -> None:
        self._script = Ambient(True, False, ambient().autocast, ())
        self._leave: Callable[[], None] = lambda: None
        self._examiner = ambient()

    def to_script(self, watched: bool = True) -> None:
        self._examiner = ambient()
        self._leave()
        # The guard that kept the script's inference mode away is gone, so that mode is in force again.
        self._leave = lambda: None
        adopt(self._script, (self._examiner.modes if watched else ()) + self._script.modes)

    def to_examiner(self) -> None:
        self._script = ambient(besides=self._examiner.modes)
        self._leave = adopt(self._examiner, self._examiner.modes)
