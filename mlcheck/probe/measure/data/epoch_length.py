"""How long an epoch is: as the experiment's config counts it, and as the training loader has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from mlcheck.probe.measure.drive import length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class EpochLength:
    """Samples of an epoch: `counted` by the config, which turns epochs into batches by them, and in a `passed` one."""

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 1

    counted: int
    passed: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - nothing is run
        if trial.planned is None or not trial.planned.records:
            raise NotMeasured("no config counts the run in epochs and says how many records one has")
        loader = trial.loaders.get("training")
        size, batches = getattr(loader, "batch_size", None), length_of(loader)
        if not size or not batches:
            raise NotMeasured("the training loader does not tell how many samples a pass has")
        return cls(trial.planned.records, batches * size)
