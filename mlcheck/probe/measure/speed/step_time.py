"""Where the time of a training step goes: waiting for data, computing, or fighting for the cores; and for what."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from torch.utils.data import DataLoader

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.speed.loading_lines import LoadingLines, loading_lines
from mlcheck.probe.measure.speed.loop_rounds import Round, Rounds
from mlcheck.trial.generators import seed_all
from mlcheck.trial.observe.gpu import GpuActivity, GpuWatch
from mlcheck.trial.observe.stacks import SampledWorker, Sampler, Stacks, spied, worker_looks
from mlcheck.trial.observe.watch import Phase, Watch
from mlcheck.trial.trial import Trial

_QUICK_S = 0.15
_BLOCK_S = 0.7
_ROUNDS = 3
_MOST_S = 18.0
_LOOKS_S = 2.0
_SEED = 2
_NOTHING = 0.1
_NEAR = 0.6
WORTH_BATCH_S = 0.020
WORTH_PASS_S = 5.0


@dataclass(frozen=True, slots=True)
class StepTime:
    """Rounds of the loop, its loader and its steps; what trainer and workers did meanwhile, by phase (`loop`,

    `load`, `step`); and the lines that loading stands on. One round alone was enough where nothing is lost in it:
    then nothing else was looked at. `batches` is the length of a pass, 0 where it is unknown.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 90

    rounds: tuple[Round, ...]
    workers: int
    batches: int = 0
    phases: dict[str, Phase] = field(default_factory=dict)
    lines: LoadingLines = field(default_factory=LoadingLines)
    place: Location = field(default_factory=Location)
    gpu: GpuActivity = field(default_factory=GpuActivity)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if trial.draws_batches or not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself, between its own steps")
        seed_all(_SEED)
        loader = trial.loaders.get("training")
        workers = int(getattr(loader, "num_workers", 0) or 0)
        batches = length_of(loader)
        place = Location(*trial.entry)
        ahead = workers * int(getattr(loader, "prefetch_factor", 0) or 2)
        rounds = Rounds(trial, Clock(min(seconds / 2, _MOST_S)), Clock(0.7 * seconds), workers, ahead)
        try:
            if endless := rounds.endless:
                return cls(
                    (endless,), workers, batches, lines=loading_lines(_stacks(rounds, loader), loader), place=place
                )
            quick = rounds.round(_QUICK_S)
            if not worth_a_look(quick, batches):
                return cls((quick,), workers, batches, place=place)
            with Watch() as watch, GpuWatch(trial.device.index or 0) as gpu:
                timed = tuple(rounds.round(_BLOCK_S, watch) for _ in range(_ROUNDS))
                if not workers:
                    with watch.phase("load"):
                        rounds.read_for(_BLOCK_S)
            lines = loading_lines(_stacks(rounds, loader), loader)
        finally:
            rounds.batches.close()
        return cls(timed, workers, batches, watch.phases(), lines, place, gpu.activity())


def worth_a_look(found: Round, batches: int) -> bool:
    """Whether a noticeable part of the loop, and of anybody's time, is not its steps; or might be, in a calmer hour."""
    lost = max(found.waits, found.step - found.alone, 0.0)
    return near(found, batches) or (lost > _NOTHING * found.total and worth_mending(lost, batches))


def near(found: Round, batches: int) -> bool:
    """Whether the loader is not clearly faster than the steps, so that a busy machine may hide which one waits."""
    return found.load > _NEAR * min(found.alone, found.needed) and worth_mending(found.load, batches)


def worth_mending(lost: float, batches: int) -> bool:
    """Whether so many seconds a batch are worth a word."""
    return lost >= WORTH_BATCH_S or lost * batches >= WORTH_PASS_S


def _stacks(rounds: Rounds, loader: Any) -> Stacks:
    """By py-spy; where it cannot, by a thread in the trainer, or in workers that are started for it."""
    with tempfile.TemporaryDirectory(prefix="mlcheck-stacks-") as name:
        folder = Path(name)
        found = spied(lambda: rounds.read_for(_LOOKS_S / 4), 3 * _LOOKS_S / 4, folder)
        if found.tool:
            return found
        with _sampling_workers(loader, folder) as started, Sampler() as trainer:
            if started:
                rounds.batches.close()
            rounds.read_for(_LOOKS_S)
            if started:
                rounds.batches.close()
        return Stacks("mlcheck", trainer, worker_looks(folder), why_not=found.why_not)


class _sampling_workers:  # noqa: N801 - a context manager
    """Workers that start within are looked at from inside of them."""

    def __init__(self, loader: Any, folder: Path) -> None:
        able = isinstance(loader, DataLoader) and loader.num_workers
        self._loader: Any = loader if able else None
        self._folder = folder
        self._kept: tuple[Any, Any] = (None, None)

    def __enter__(self) -> bool:
        if self._loader is None:
            return False
        self._kept = (self._loader.worker_init_fn, self._loader._iterator)
        self._loader.worker_init_fn = SampledWorker(str(self._folder), self._loader.worker_init_fn)
        self._loader._iterator = None
        return True

    def __exit__(self, *_: object) -> None:
        if self._loader is not None:
            self._loader.worker_init_fn, self._loader._iterator = self._kept
