"""Reads the samples behind the loaders one by one, so that a bad one is found by its number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.sampler import RandomSampler, SequentialSampler

from mlcheck.probe.measure.data.joined_by_default import joins_any_samples
from mlcheck.probe.measure.data.sample_tensors import digest, encoded, hashed, sample_leaves, sample_texts
from mlcheck.probe.measure.data.sketches import sketch
from mlcheck.probe.measure.data.split import BadSample, Split
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.place import raised_at
from mlcheck.trial.generators import seed_all, seed_sample
from mlcheck.trial.ranks.samples import plain_index
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

SECONDS = 5.0
_MOST_INDICES = 500_000
_READ_TWICE = 12
_READ_FOR_FLIPS = 40
_PAIRING_SECONDS = 1.0
_ORDER_SECONDS = 1.0
_VARIANTS = 5
_KEPT = 1000
_KEPT_ELEMENTS = 8_000_000


@dataclass(slots=True)
class Samples:
    """Both splits, where the loaders read from data sets that can be asked by index."""

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 85

    training: Split
    validation: Split | None

    @property
    def splits(self) -> tuple[Split, ...]:
        return (self.training, self.validation) if self.validation else (self.training,)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        limit = min(SECONDS, seconds / 6)
        training = read_split(trial.loaders.get("training"), "training", limit)
        if training is None:
            raise NotMeasured("the training loader does not read from a data set that can be asked for a sample")
        validation = read_split(trial.loaders.get("validation"), "validation", limit)
        if training.varying and validation is not None:
            _read_variants(training, trial.loaders["training"].dataset, limit / 2)
        return cls(training, validation)


@dataclass(frozen=True, slots=True)
class HeldOutSamples:
    """The validation split beside training data that no index asks for: a stream, say."""

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 40

    validation: Split

    @property
    def splits(self) -> tuple[Split, ...]:
        return (self.validation,)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if _can_be_asked(trial.loaders.get("training")):
            raise NotMeasured("the training data can be asked as well")
        validation = read_split(trial.loaders.get("validation"), "validation", min(SECONDS, seconds / 6))
        if validation is None:
            raise NotMeasured("the loaders do not read from data sets that can be asked for a sample")
        return cls(validation)


def _can_be_asked(loader: Any) -> bool:
    """Not where the loader is none of torch's, batches by itself, or its data set is a stream."""
    return isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset) and bool(_indices(loader))


def read_split(loader: Any, name: str, seconds: float) -> Split | None:
    """None where its data set cannot be asked."""
    if not _can_be_asked(loader):
        return None
    indices = _indices(loader)
    split = Split(name, len(indices))
    split.joined_by_default = joins_any_samples(loader)
    clock = Clock(seconds)
    seed_all(0)
    order = torch.randperm(len(indices), generator=torch.Generator().manual_seed(0)).tolist()
    for place in order:
        _read(split, loader.dataset, indices[place])
        if not clock.left() or (len(split.raised) >= 8 and len(split.raised) == split.read):
            break
    split.raised.sort(key=lambda bad: bad.index)
    split.non_finite.sort(key=lambda bad: bad.index)
    split.in_order = list(_in_order(loader.dataset, indices))
    again = [indices[place] for place in order[:_READ_TWICE]]
    _read_again(split, loader.dataset, again)
    if split.flips.is_unsure:
        _read_again(split, loader.dataset, [indices[place] for place in order[_READ_TWICE:_READ_FOR_FLIPS]])
    if split.varying:
        split.drawn = tuple(_drawn(split, loader.dataset, again, [indices[place] for place in order[:_KEPT]]))
    return split


def _indices(loader: DataLoader[Any]) -> list[Any]:
    """What the sampler can ask for, each once; a random or sequential one asks for everything."""
    if loader.batch_size is None and loader.batch_sampler is None:
        return []
    sampler = loader.sampler
    batches = loader.batch_sampler
    try:
        if type(batches) is torch.utils.data.BatchSampler or batches is None:
            if isinstance(sampler, (RandomSampler, SequentialSampler)):
                return list(range(min(len(sampler.data_source), _MOST_INDICES)))
            return sorted(set(map(plain_index, islice(iter(sampler), _MOST_INDICES))))
        return sorted({plain_index(index) for batch in islice(iter(batches), _MOST_INDICES // 64) for index in batch})
    except (TypeError, AttributeError):
        return []


def _read(split: Split, dataset: Any, index: int) -> None:
    split.read += 1
    seed_sample(0)  # an augmentation then does the same to every sample, and equal ones stay equal
    try:
        drawn = dataset[index]
        sample = list(sample_leaves(drawn))
    except Exception as error:
        split.raised.append(BadSample(index, f"raises {error_line(error)}", raised_at(error)))
        return
    for name, tensor in sample:
        shape = tuple(tensor.shape)
        split.shapes.setdefault(name, Counter())[shape] += 1
        split.example.setdefault((name, shape), index)
        if tensor.is_floating_point() and not _all_finite(tensor):
            value = "NaN" if bool(tensor.isnan().any()) else "an infinite value"
            split.non_finite.append(BadSample(index, f"holds {value} in `{part_of('sample', name)}`"))
    whole = [tensor for _, tensor in sample]
    large = _large(whole)
    read = [*whole, *sample_texts(drawn)] if large is whole else whole  # a picture's own name is not what it shows
    codes = [(tensor.numel(), encoded(tensor)) for tensor in read]
    split.digests[index] = hashed(code for _, code in codes)
    split.content[index] = hashed([code for size, code in codes if size > 1] or [code for _, code in codes])
    split.labels[index] = hashed(code for size, code in codes[: len(whole)] if size == 1)
    if not split.continuous:
        split.continuous = any(bool((t != t.round()).any()) for t in large if t.is_floating_point())
    main = max(large, key=Tensor.numel, default=None)
    if main is not None and (few := sketch(main)) is not None:
        split.sketches[index] = few
        others = [tensor.flatten().float() for tensor in large if tensor is not main and tensor.is_floating_point()]
        if others and (few := sketch(torch.cat(others))) is not None:
            split.beside[index] = few
    if main is not None and len(split.kept) < _KEPT and (len(split.kept) + 1) * main.numel() <= _KEPT_ELEMENTS:
        split.kept[index] = main.detach().clone()


def _in_order(dataset: Any, indices: list[Any]) -> Iterator[dict[str, Tensor]]:
    """The first samples of the data set, one after the other, until one raises or there is enough."""
    clock, elements = Clock(_ORDER_SECONDS), 0
    for index in sorted(indices)[:_KEPT] if all(isinstance(index, int) for index in indices) else []:
        seed_sample(0)
        try:
            sample = dict(sample_leaves(dataset[index]))
        except Exception:  # told by the first reading
            return
        elements += sum(tensor.numel() for tensor in sample.values())
        if elements > _KEPT_ELEMENTS or not clock.left():
            return
        yield {name: tensor.detach().clone() for name, tensor in sample.items()}


def _read_again(split: Split, dataset: Any, indices: list[Any]) -> None:
    """Twice under different random numbers: what varies is augmented (or noisy)."""
    varying: dict[str, None] = {}
    for number, index in enumerate(indices):
        with suppress(Exception):  # told by the first reading
            seed_sample(2 * number + 1)
            first = list(sample_leaves(dataset[index]))
            seed_sample(2 * number + 2)
            second = list(sample_leaves(dataset[index]))
            split.read_twice += 1
            split.noise.compare(first, second)
            split.flips.compare(first, second)
            split.redrawn.compare(first, second)
            varying.update(dict.fromkeys(_differing(first, second)))
    split.varying = tuple(varying)


def _drawn(split: Split, dataset: Any, again: list[Any], indices: list[Any]) -> Iterator[str]:
    """Varying tensors that are most often found among what stays the same in the samples of `indices`."""
    clock, stays, found = Clock(_PAIRING_SECONDS), set(), Counter[str]()
    for index in indices:
        with suppress(Exception):
            sample = sample_leaves(dataset[index])
            stays |= {digest([tensor]) for name, tensor in sample if name not in split.varying and tensor.numel() > 1}
        if not clock.left():
            break
    read = 0
    for index in again:
        with suppress(Exception):
            sample = sample_leaves(dataset[index])
            found.update(name for name, tensor in sample if name in split.varying and digest([tensor]) in stays)
            read += 1
    known = len(indices) / max(split.length, 1)
    return (name for name, count in found.items() if count > known * read / 2)


def _read_variants(split: Split, dataset: Any, seconds: float) -> None:
    """Under other random numbers, of all or its own: a flip that is left out now and then shows the sample as it is."""
    clock = Clock(seconds)
    for look in range(_VARIANTS):
        for place, index in enumerate(split.content):
            if not clock.left():
                return
            with suppress(Exception):
                seed_sample(1 + look + look % 2 * _VARIANTS * place)
                large = _large([tensor for _, tensor in sample_leaves(dataset[index])])
                split.variants.setdefault(digest(large), index)
                if (drawn := sketch(max(large, key=Tensor.numel))) is not None:
                    split.looks.append((index, drawn))


def _all_finite(tensor: Tensor) -> bool:
    """A finite sum has no other terms, and is one look; one that overflows says nothing."""
    return math.isfinite(tensor.sum()) or bool(torch.isfinite(tensor).all())


def _large(tensors: list[Tensor]) -> list[Tensor]:
    """The input, not its label: what is more than single numbers."""
    return [tensor for tensor in tensors if tensor.numel() > 1] or tensors


def _differing(first: list[tuple[str, Tensor]], second: list[tuple[str, Tensor]]) -> list[str]:
    return [
        name
        for (name, one), (_, other) in zip(first, second)
        if one.shape != other.shape or not torch.equal(one.nan_to_num(), other.nan_to_num())
    ]
