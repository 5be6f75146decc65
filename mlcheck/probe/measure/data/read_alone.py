"""How many samples a stream gives to one process alone, where the program reads it with several workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch.utils.data import DataLoader, IterableDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import batch_size
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ReadAlone:
    """`samples` of one pass, read to its end."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 15

    samples: int

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
        seed_all(1)
        try:
            return cls(_count(alone, Clock(min(_SECONDS, seconds / 8))))
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
