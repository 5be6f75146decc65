"""What a model's embeddings look up in a few steps and evaluations: which ids, and where the filling id stands.

An embedding that is asked for one id a row has categories: what pads sequences is no answer there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.trial.trial import NotReached, Trial

_BATCHES = 6
_FEW_WORDS = 8
_FEW_PLACES = 4
_NONE = "no embedding looks up sequences of ids, and none with a padding index one id a row"


@dataclass(frozen=True, slots=True)
class EmbeddedIds:
    """Sequences that an embedding looks up: the different `ids` in `rows` rows, and of two the one `filling` them up.

    `amid` is the share of rows in which the `padding` index stands between two other ids, and `ending` of those that
    end in it; of training and of evaluation the smaller.
    """

    name: str
    words: int
    rows: int
    ids: tuple[int, ...]
    filling: int | None
    padding: int | None
    amid: float
    ending: float

    @property
    def only(self) -> int | None:
        """The one id that all places hold which are not filled up."""
        told = [one for one in self.ids if one != self.filling]
        return told[0] if len(told) == 1 else None


@dataclass(frozen=True, slots=True)
class Categories:
    """One id a row that an embedding with a padding index looks up: how often that one, and `others` in `rows` rows."""

    name: str
    padding: int
    rows: int
    padded: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lookups:
    """Of every embedding of more than a few words that is asked for sequences, and of those that have categories."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 9

    tables: tuple[EmbeddedIds, ...]
    categories: tuple[Categories, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        if not any(_is_asked(module) for model in trial.models.values() for module in model.modules()):
            raise NotMeasured(_NONE)
        with _listening(trial) as training:
            for index, batch in enumerate(first_batches(trial, _BATCHES)):
                trial.train_step(batch, index)
        with _listening(trial) as evaluation:
            if trial.evaluate_step and trial.validation_batches:
                with suppress(NotReached):
                    for batch in islice(trial.validation_batches(), _BATCHES):
                        trial.evaluate_step(batch)
        sequences = {name: (table, _sequences(seen)) for name, (table, seen) in training.items() if _has_words(table)}
        tables = [
            _told(name, table, seen, _sequences(evaluation.get(name, (table, []))[1]))
            for name, (table, seen) in sequences.items()
            if seen
        ]
        categories = [one for name, (table, seen) in training.items() if (one := _counted(name, table, seen))]
        if not tables and not categories:
            raise NotMeasured(_NONE)
        return cls(tuple(tables), tuple(categories))


def _is_asked(module: nn.Module) -> bool:
    return _has_words(module) or (isinstance(module, nn.Embedding) and module.padding_idx is not None)


def _has_words(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) and module.num_embeddings >= _FEW_WORDS


def _sequences(asked: list[Tensor]) -> list[Tensor]:
    return [ids for ids in asked if ids.ndim == 2 and ids.shape[1] >= _FEW_PLACES]


def _counted(name: str, table: nn.Embedding, asked: list[Tensor]) -> Categories | None:
    """Where a table is asked for nothing but one id a row; one that sequences share may say "no such item" by it."""
    if table.padding_idx is None or not all(ids.numel() == len(ids) for ids in asked):
        return None
    ids, times = torch.unique(torch.cat([one.flatten() for one in asked]), return_counts=True)
    counts = dict(zip(ids.tolist(), times.tolist()))
    padded = counts.pop(table.padding_idx, 0)
    return Categories(name, table.padding_idx, int(times.sum()), padded, tuple(counts.values()))


_Heard = dict[str, tuple[nn.Embedding, list[Tensor]]]


@contextmanager
def _listening(trial: Trial) -> Iterator[_Heard]:
    heard: _Heard = {}
    hooks = []
    for model in trial.models.values():
        for name, module in model.named_modules():
            if _is_asked(module):

                def hear(table: nn.Embedding, args: tuple[Any, ...], name: str = name) -> None:
                    ids = args[0] if args and isinstance(args[0], Tensor) else None
                    if ids is not None and ids.ndim:
                        heard.setdefault(name, (table, []))[1].append(ids.detach().cpu())

                hooks.append(module.register_forward_pre_hook(hear))
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def _told(name: str, table: nn.Embedding, training: list[Tensor], evaluation: list[Tensor]) -> EmbeddedIds:
    ids = sorted({one for batch in training for one in batch.flatten().tolist()})
    padding = table.padding_idx
    fillings = [one for one in ids if all(_fills_up(batch, one) for batch in training)] if len(ids) == 2 else []
    shares = [_amid_and_ending(seen, padding) for seen in (training, evaluation) if seen] if padding is not None else []
    return EmbeddedIds(
        name=name,
        words=table.num_embeddings,
        rows=sum(len(batch) for batch in training),
        ids=tuple(ids),
        filling=fillings[0] if fillings else None,
        padding=padding,
        amid=min((amid for amid, _ in shares), default=0.0),
        ending=min((ending for _, ending in shares), default=0.0),
    )


def _fills_up(batch: Tensor, one: int) -> bool:
    """Whether it stands behind all others of a row, or before them."""
    filled = (batch == one).long().diff(dim=1)
    return not bool((filled < 0).any()) or not bool((filled > 0).any())


def _amid_and_ending(batches: list[Tensor], padding: int) -> tuple[float, float]:
    """The shares of rows that hold it between two other ids, and of those that begin or end in it."""
    amid, ending, rows = 0, 0, 0
    for batch in batches:
        there = batch == padding
        between = ~there[:, :-2] & there[:, 1:-1] & ~there[:, 2:]
        amid += int(between.any(1).sum())
        ending += int((there[:, -1] | there[:, 0]).sum())
        rows += len(batch)
    return amid / max(rows, 1), ending / max(rows, 1)
