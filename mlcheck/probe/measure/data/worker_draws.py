"""Whether the loader's worker processes draw random numbers of their own: one sample, asked of two workers, twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.sample_tensors import digest, sample_leaves
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

WORKERS = 2
READS = 6
_SECONDS = 20


@dataclass(frozen=True, slots=True)
class WorkerDraws:
    """Hashes of the same sample, read again and again: by epoch, by worker, in order."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 20

    epochs: tuple[tuple[tuple[bytes, ...], ...], ...]
    workers: int
    seeded_by_user: bool

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        loader = trial.loaders.get("training")
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            raise NotMeasured("the training loader does not read from a data set that can be asked for a sample")
        if not loader.num_workers:
            raise NotMeasured("the training loader has no worker processes")
        seed_all(0)
        asked = _asking(loader, min(_SECONDS, seconds / 2))
        try:
            epochs = tuple(_by_worker(list(asked)) for _ in range(2))
        except Exception as error:
            raise NotMeasured(f"reading by two workers raised {error_line(error)}", Outcome.INCONCLUSIVE) from error
        if any(len(worker) < 2 for epoch in epochs for worker in epoch) or any(
            len(epoch) < WORKERS for epoch in epochs
        ):
            raise NotMeasured("the samples were not spread over two workers", Outcome.INCONCLUSIVE)
        return cls(epochs, loader.num_workers, loader.worker_init_fn is not None)

    @property
    def varies(self) -> bool:
        """Whether the sample differs from read to read at all."""
        return all(len(set(worker)) > 1 for epoch in self.epochs for worker in epoch)


def _asking(loader: DataLoader[Any], seconds: float) -> DataLoader[Any]:
    """A loader like the user's, whose every item is the same sample, hashed where it was read."""
    return DataLoader(
        _Same(loader.dataset),
        batch_size=1,
        num_workers=WORKERS,
        collate_fn=_only,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        persistent_workers=loader.persistent_workers,
        timeout=seconds,
    )


class _Same(Dataset[tuple[int, bytes]]):
    def __init__(self, samples: Dataset[Any]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return WORKERS * READS

    def __getitem__(self, _: int) -> tuple[int, bytes]:
        worker = get_worker_info()
        assert worker is not None
        return worker.id, digest([tensor for _, tensor in sample_leaves(self._samples[0])])


def _only(items: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    return items[0]


def _by_worker(read: list[tuple[int, bytes]]) -> tuple[tuple[bytes, ...], ...]:
    found: dict[int, list[bytes]] = {}
    for worker, seen in read:
        found.setdefault(worker, []).append(seen)
    return tuple(tuple(found[worker]) for worker in sorted(found))
