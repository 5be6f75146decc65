"""A script that goes on from a file which it has written itself: does its optimizer go on as well?

That it goes on, and does not begin another training with trained weights, is known by its place and its own count: it
comes to the same loop by the same calls as at its first start, with a number that is higher than it was there, and is
the one in the file or the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.optim import Optimizer

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.place import as_given
from mlcheck.trial.resumption import Loaded, Resumption
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import NotReached, Trial

_STEPS = 4
_NONE = "the program writes its own checkpoints, and was not seen to go on from one"


@dataclass(frozen=True, slots=True)
class OwnCheckpoint:
    """`lost` are optimizers that have state and begin without, by what of it begins at 0; `going_on` are the others.

    `holds_state` says that the file has the state of an optimizer, whoever loads it.
    """

    file: str
    lost: Mapping[str, tuple[str, ...]]
    going_on: tuple[str, ...]
    holds_state: bool
    place: Location

    @classmethod
    def of(cls, trial: Trial) -> Self:
        try:
            resumed = trial.resume() if trial.resume else None
        except NotReached:
            resumed = None
        except Exception as error:
            told = f"started again where its first run had left its files, the program raised {error_line(error)}"
            raise NotMeasured(told, Outcome.INCONCLUSIVE) from error
        found = [(one, content) for one in resumed.loaded if (content := _read(one))] if resumed else []
        for one, content in found:
            tensors = [leaf for leaf in _leaves(content) if isinstance(leaf, Tensor)]
            optimizers = {name: held for name, held in trial.optimizers.items() if _is_of(held, tensors)}
            if resumed and optimizers and _counts_on(resumed, content):
                lost = _lost(trial, optimizers)
                going_on = tuple(name for name in optimizers if name not in lost)
                return cls(Path(one.path).name, lost, going_on, _holds_state(content), _place(one))
        raise NotMeasured(_NONE)


def _place(loaded: Loaded) -> Location:
    file, line = loaded.place
    return Location(as_given(file), line) if file else Location()


def _read(loaded: Loaded) -> Any:
    try:
        return torch.load(loaded.lies_at, map_location="cpu", weights_only=True)
    except Exception:  # objects of the program's own are in it: what it holds is not known
        return None


def _leaves(content: Any) -> Iterator[Any]:
    if isinstance(content, Mapping):
        for one in content.values():
            yield from _leaves(one)
    elif isinstance(content, list | tuple):
        for one in content:
            yield from _leaves(one)
    else:
        yield content


def _holds_state(content: Any) -> bool:
    if not isinstance(content, Mapping):
        return False
    return {"state", "param_groups"} <= content.keys() or any(map(_holds_state, content.values()))


def _is_of(optimizer: Optimizer, tensors: list[Tensor]) -> bool:
    """Whether all that it trains is in the file, bit for bit."""
    trained = [p.detach().cpu() for group in optimizer.param_groups for p in group["params"]]
    return all(any(t.shape == p.shape and t.dtype == p.dtype and same_bits(t, p) for t in tensors) for p in trained)


def _counts_on(resumed: Resumption, content: Any) -> bool:
    kept = {leaf for leaf in _leaves(content) if type(leaf) is int}
    first = resumed.at_first.numbers
    return resumed.now.lines == resumed.at_first.lines and any(
        number > first.get(name, number) and not kept.isdisjoint((number, number - 1))
        for name, number in resumed.now.numbers.items()
    )


def _lost(trial: Trial, optimizers: Mapping[str, Optimizer]) -> dict[str, tuple[str, ...]]:
    empty = {name: held for name, held in optimizers.items() if not _memory(held)}
    for index, batch in enumerate(first_batches(trial, _STEPS)):
        if all(map(_memory, empty.values())):
            break
        trial.train_step(batch, index)
    return {name: memory for name, held in empty.items() if (memory := _memory(held))}


def _memory(optimizer: Optimizer) -> tuple[str, ...]:
    """What it remembers of earlier gradients, weight by weight."""
    found = {
        str(name): None
        for parameter, state in optimizer.state.items()
        for name, value in (state.items() if isinstance(state, Mapping) else ())
        if isinstance(value, Tensor) and value.shape == parameter.shape and value.ndim and bool(value.any())
    }
    return tuple(found)
