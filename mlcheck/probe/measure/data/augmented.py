"""The same samples as they are stored and as the training reads them, again and again."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from mlcheck.core.finding import Figure
from mlcheck.probe.measure.data.gallery import picture_of
from mlcheck.probe.measure.data.normalised import Normalisation, data_sets, normalisation
from mlcheck.probe.measure.data.sample_tensors import sample_leaves
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import replaced
from mlcheck.trial.generators import seed_sample
from mlcheck.trial.trial import Trial

SAMPLES = 4
READS = 4
_TRANSFORM = "transform"


@dataclass(frozen=True, slots=True)
class Augmented:
    """A few training samples, each read several times."""

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 5

    figure: Figure

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few samples, whatever the limit
        loader = trial.loaders.get("training")
        figure = augmentation(loader, normalisation(loader))
        if figure is None:
            raise NotMeasured("training samples are the same at every reading, or no pictures")
        return cls(figure)


def augmentation(loader: Any, undo: Normalisation | None) -> Figure | None:
    """Tiles of a few samples: without the data set's `transform` where it has one, then as often as it is read.

    None for what cannot be read by index, is no picture, or is the same at every reading.
    """
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return None
    size = len(loader.dataset)  # type: ignore[arg-type]
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:SAMPLES].tolist()
    tiles: list[dict[str, str]] = []
    varies = False
    for index in order:
        reads = [_read(loader.dataset, index, seed) for seed in range(1, READS + 1)]
        shown = [picture_of(one, undo) if one is not None else "" for one in reads]
        if not all(shown):
            return None
        varies = varies or len(set(shown)) > 1
        stored = picture_of(before) if (before := _stored(loader, index)) is not None else ""
        tiles += [{"png": stored, "caption": f"{index}, without transform"}] if stored else []
        tiles += [{"png": png, "caption": f"{index}, reading {place}"} for place, png in enumerate(shown, 1)]
    if not varies:
        return None
    title = "the same training samples, read again and again: what augmentation makes of them"
    return Figure("images", title, {"tiles": tiles})


def _stored(loader: DataLoader[Any], index: int) -> Tensor | None:
    """A sample without the `transform` of its data set; None where there is none, or it does not work without."""
    owner = next((one for one in data_sets(loader) if callable(vars(one).get(_TRANSFORM))), None)
    return _read(loader.dataset, index, 1, owner) if owner is not None else None


def _read(data_set: Any, index: int, seed: int, without: Any = None) -> Tensor | None:
    """The largest tensor of a sample."""
    seed_sample(seed)
    with replaced(without, _TRANSFORM, None) if without is not None else nullcontext():
        try:
            parts = [tensor for _, tensor in sample_leaves(data_set[index])]
        except Exception:  # told by the probes of single samples
            return None
    return max(parts, key=Tensor.numel, default=None)
