"""What is fixed for a stand-in context, where it stands, and what it has seen."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

import torch

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.determined.api import NotProvided


@dataclass(frozen=True)
class Settings:
    """What the experiment fixes before the trial is constructed. `config` is None where none was given.

    `slots` is what the experiment asks for; `rank` of `world` is what this process acts as, which can talk to the
    others where it `communicates`. `dtype` is what models are cast to before they are wrapped.
    """

    hyperparameters: Hyperparameters
    config: dict[str, Any] | None
    seed: int
    device: torch.device
    slots: int = 1
    aggregation_frequency: int = 1
    average_aggregated_gradients: bool = True
    scheduling_unit: int = 100
    rank: int = 0
    world: int = 1
    communicates: bool = False
    dtype: torch.dtype | None = None


@dataclass
class Position:
    """Where training stands; `batch` and `epoch_len` are None before it starts."""

    batch: int | None = None
    epoch_len: int | None = None
    stop_requested: bool = False


@dataclass
class Record:
    """The calls seen so far as (event, detail), each object under the name the trial gave it."""

    events: list[tuple[str, str]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def note(self, event: str, detail: object = "") -> None:
        text = detail if isinstance(detail, str) else self.names.get(id(detail), type(detail).__name__)
        self.events.append((event, text))


def missing_attribute(owner: str, name: str, known: list[str]) -> NotProvided:
    """The error for an attribute the stand-in does not have, with the nearest it has."""
    near = difflib.get_close_matches(name, [other for other in known if not other.startswith("_")], n=1)
    hint = f"did you mean `{near[0]}`?" if near else "if Determined has it, its stand-in in mlcheck lacks it"
    return NotProvided(f"there is no `{owner}.{name}`: {hint}")
