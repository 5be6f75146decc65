"""Remembered generators of random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from mlcheck.trial.tensors import same_bits


def seed_all(seed: int) -> None:
    """Python's, numpy's and torch's global random numbers, on every device."""
    seed_sample(seed)
    if torch.cuda.is_initialized() or _has_devices():  # type: ignore[no-untyped-call]
        torch.manual_seed(seed)


def seed_sample(seed: int) -> None:
    """The same for one sample of a data set, on the CPU."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


@cache
def _has_devices() -> bool:
    """Whether torch can draw anywhere but on the CPU.

    If not, `torch.manual_seed` notes the call stack for each device that may yet come, which takes as long as a step.
    CUDA devices are counted, not asked: that would begin CUDA before the program has chosen its devices.
    """
    built_for = torch.accelerator.current_accelerator()
    return built_for is not None and (built_for.type != "cuda" or torch.cuda.device_count() > 0)


@dataclass
class ValueCell:
    """State behind a getter and a setter: a random generator, a global mode."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]
    _value: Any = field(init=False)

    def __post_init__(self) -> None:
        self._value = self.get()

    def restore(self) -> None:
        if self.change():
            self.set(self._value)

    def change(self) -> str:
        now = self.get()
        if isinstance(now, torch.Tensor):
            return "" if same_bits(now, self._value) else "it moved on"
        if _same(now, self._value):
            return ""
        return "it moved on" if isinstance(now, tuple | dict) else f"it became {now}"


def _same(now: Any, before: Any) -> bool:
    """Whether two states are equal. Those of numpy hold arrays, which do not compare to one truth value."""
    try:
        return bool(now == before)
    except ValueError:
        return bool(_flat(now) == _flat(before))


def _flat(value: Any) -> Any:
    """A state with the bytes of its arrays in their place."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return {key: _flat(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_flat, value))
    return value


def is_generator(value: Any) -> bool:
    return isinstance(value, torch.Generator | random.Random | np.random.RandomState | np.random.Generator)


def generator_cell(name: str, generator: Any) -> ValueCell | None:
    """A cell for a generator of random numbers, None for anything else."""
    if isinstance(generator, torch.Generator):
        return ValueCell(name, generator.get_state, generator.set_state)
    if isinstance(generator, random.Random):
        return ValueCell(name, generator.getstate, generator.setstate)
    if isinstance(generator, np.random.RandomState):
        return ValueCell(name, generator.get_state, generator.set_state)
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return ValueCell(name, lambda: bits.state, lambda state: setattr(bits, "state", state))
    return None


def global_cells() -> Iterable[ValueCell]:
    """The process's random generators."""
    yield ValueCell("Python's random generator", random.getstate, random.setstate)
    yield ValueCell("numpy's random generator", np.random.get_state, np.random.set_state)
    yield ValueCell("torch's random generator", torch.get_rng_state, torch.set_rng_state)
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for device in range(torch.cuda.device_count()):
            yield _cuda_generator(device)


def _cuda_generator(device: int) -> ValueCell:
    return ValueCell(
        f"the random generator of cuda:{device}",
        lambda: torch.cuda.get_rng_state(device),
        lambda state: torch.cuda.set_rng_state(state, device),
    )
