"""What a stream gives to one process alone, and to the several workers that the program reads it with.

An epoch of the program may end before its stream does, so both are read to the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch.utils.data import DataLoader, IterableDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import batch_size, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ReadAlone:
    """`samples` of one pass by one process; `numbers` of each batch of the workers', by name, one for each sample."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 15

    samples: int
    numbers: tuple[Mapping[str, tuple[float, ...]], ...] = ()

    @property
    def together(self) -> int:
        """How many samples the workers give."""
        return sum(len(next(iter(batch.values()), ())) for batch in self.numbers)

    @classmethod
    def unfit(cls, trial: Trial) -> str:
        loader = trial.loaders.get("training")
        several = (
            isinstance(loader, DataLoader) and isinstance(loader.dataset, IterableDataset) and loader.num_workers > 1
        )
        return "" if several else "the training data is no stream that several workers read"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if why := cls.unfit(trial):
            raise NotMeasured(why)
        loader = trial.loaders["training"]
        alone = DataLoader(loader.dataset, loader.batch_size, collate_fn=loader.collate_fn, drop_last=loader.drop_last)
        limit = min(_SECONDS, seconds / 8)
        seed_all(1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a stream that gives more than the length it tells
                return cls(_count(alone, Clock(limit)), _numbers(loader, Clock(limit)))
        except NotMeasured:
            raise
        except Exception as error:  # a stream that asks which worker it is in
            raise NotMeasured(f"one process cannot read the stream ({error_line(error)})") from error


def _count(batches: Iterable[Any], clock: Clock) -> int:
    samples = 0
    for batch in batches:
        samples += batch_size(batch) or 1
        if not clock.left():
            raise NotMeasured("the stream was not read to its end by one process", Outcome.INCONCLUSIVE)
    return samples


def _numbers(batches: Iterable[Any], clock: Clock) -> tuple[Mapping[str, tuple[float, ...]], ...]:
    """Nothing of a stream that is too long to be read."""
    found = []
    for batch in batches:
        size = batch_size(batch) or 0
        labels = [(name, leaf) for name, leaf in leaves(batch) if leaf.ndim and leaf.numel() == len(leaf) == size]
        found.append({name: tuple(leaf.double().flatten().tolist()) for name, leaf in labels})
        if not clock.left():
            return ()
    return tuple(found)
