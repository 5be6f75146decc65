"""One training step and one evaluation under `torch.use_deterministic_algorithms`: which operations would raise.

They are asked to warn instead, so that all are heard of and the step comes to its end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.program_text import program_text
from mlcheck.trial.modes import deterministic
from mlcheck.trial.trial import NotReached, Trial

_ASKS = re.compile(
    r"use_deterministic_algorithms\(|set_deterministic\(|set_deterministic_debug_mode\(|cudnn\.deterministic\s*=\s*True"
    r"|\bdeterministic\s*=\s*(True|['\"]warn)|enable_full_determinism|CUBLAS_WORKSPACE_CONFIG"
)
_FOR_GPU = re.compile(r"\bcuda\b|\baccelerator\b|Trainer\(|device_map")
_RAISES = re.compile(r"^(?P<name>\S+) does not have a deterministic implementation|(?P<cublas>because it uses CuBLAS)")


@dataclass(frozen=True, slots=True)
class Determinism:
    """`operations` are those without a deterministic implementation on this `device`, and the user's lines.

    `for_gpu` says that the program is written for a GPU as well.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 67

    operations: tuple[tuple[str, Location], ...]
    device: str
    for_gpu: bool

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        text = program_text(trial)
        if not _ASKS.search(text):
            raise NotMeasured("the program does not ask for deterministic operations")
        batch = first_batches(trial, 1)[0]
        with _alerts() as heard:
            trial.train_step(batch, 0)
            if trial.evaluate_step and trial.validation_batches:
                with suppress(NotReached):
                    for held_out in islice(trial.validation_batches(), 1):
                        trial.evaluate_step(held_out)
        return cls(tuple(dict.fromkeys(heard)), trial.device.type, bool(_FOR_GPU.search(text)))


@contextmanager
def _alerts() -> Iterator[list[tuple[str, Location]]]:
    """What PyTorch says of operations meanwhile, and where."""
    heard: list[tuple[str, Location]] = []

    def hear(message: Any, *_: Any, **__: Any) -> None:
        found = _RAISES.search(str(message))
        if found:
            heard.append((found["name"] or "a matrix product by cuBLAS", user_location()))

    with warnings.catch_warnings(), deterministic():
        warnings.simplefilter("always")
        warnings.showwarning = hear
        yield heard
