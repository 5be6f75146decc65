"""Two passes over the training data and one over the validation data: order, ranges, labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, WeightedRandomSampler

from mlcheck.probe.measure.data.other_orders import shuffled_elsewhere
from mlcheck.probe.measure.data.sample_tensors import digest
from mlcheck.probe.measure.data.summarised import samples_of
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves, on_host
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

SECONDS = 3.0
_KEPT_ELEMENTS = 4_000_000
_MOST_LABELS = 200_000
_FEW_WEIGHTS = 200


@dataclass(slots=True)
class Field:
    """One tensor of a batch over a pass.

    `mean` and `spread` are per feature where `features` fit (columns of a table, channels of a picture); `labels`
    holds every value where there is one number a sample, in the order of the pass.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    total: Tensor | None = None
    squares: Tensor | None = None
    rows: int = 0
    labels: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    integral: bool = True

    @property
    def place(self) -> str:
        """Where it stands in a batch, for a sentence."""
        return part_of("batch", self.name)

    @property
    def mean(self) -> Tensor:
        return _or_empty(self.total) / max(self.rows, 1)

    @property
    def spread(self) -> Tensor:
        variance = _or_empty(self.squares) / max(self.rows, 1) - self.mean**2
        return variance.clamp_min(0).sqrt()


def _different(weights: Tensor) -> tuple[tuple[float, int], ...]:
    values, times = torch.unique(torch.as_tensor(weights).double(), return_counts=True)
    return tuple(zip(values.tolist(), times.tolist())) if len(values) <= _FEW_WEIGHTS else ()


def _or_empty(sums: Tensor | None) -> Tensor:
    return torch.zeros(0) if sums is None else sums


@dataclass(slots=True)
class Pass:
    """What one pass gave: its tensors by name, a digest of each batch in order, whether it was read to its end.

    The batches that are kept are on the CPU, wherever the program puts them.
    """

    fields: dict[str, Field] = field(default_factory=dict)
    digests: list[bytes] = field(default_factory=list)
    whole: bool = True
    kept: list[Any] = field(default_factory=list)
    samples: int = 0
    last_size: int = 0


@dataclass(slots=True)
class Passes:
    """Two passes over the training data under different random numbers, and one over the validation data.

    `stream` says that the training data comes in an order of its own (an IterableDataset), from `workers` processes.
    `weighed` is how many samples a weighted sampler has weights for, and of how many; None without one. `weights` are
    those weights and how many samples have each, where a few are enough for all.
    `renewed` says that the program makes its training data anew in every epoch, which two passes over one do not show,
    `shuffled_elsewhere` that another loader of the program has the same samples in a random order.
    """

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 22

    training: Pass
    again: Pass
    validation: Pass | None
    stream: bool = False
    workers: int = 0
    weighed: tuple[int, int] | None = None
    weights: tuple[tuple[float, int], ...] = ()
    renewed: bool = False
    shuffled_elsewhere: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        limit = min(SECONDS, seconds / 10)
        seed_all(1)
        training = _walk(trial.train_batches(), limit)
        if not training.digests:
            raise NotMeasured("the training data is empty")
        loader = trial.loaders.get("training")
        seed_all(2)
        with _next_epoch(loader):
            again = _walk(trial.train_batches(), limit)
        validation = _walk(trial.validation_batches(), limit) if trial.validation_batches else None
        stream = isinstance(getattr(loader, "dataset", None), IterableDataset)
        sampler = getattr(loader, "sampler", None)
        weighed = (len(sampler.weights), len(loader.dataset)) if isinstance(sampler, WeightedRandomSampler) else None  # type: ignore[union-attr]
        workers = int(getattr(loader, "num_workers", 0))
        other = shuffled_elsewhere(loader)
        weights = _different(sampler.weights) if isinstance(sampler, WeightedRandomSampler) else ()
        return cls(training, again, validation, stream, workers, weighed, weights, trial.renews_data, other)


@contextmanager
def _next_epoch(loader: Any) -> Iterator[None]:
    """Samplers that shuffle by the epoch's number are told of the next one, as the program's own loop tells them."""
    outer: tuple[Any, Any] = (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    samplers: Iterable[Any] = {id(one): one for one in (*outer, getattr(outer[1], "sampler", None))}.values()
    told = [one for one in samplers if callable(getattr(one, "set_epoch", None))]
    before = [dict(vars(one)) for one in told]
    for one in told:
        one.set_epoch(int(getattr(one, "epoch", 0)) + 1)
    try:
        yield
    finally:
        for one, values in zip(told, before, strict=True):
            vars(one).update(values)


def _walk(batches: Any, seconds: float) -> Pass:
    found, clock, elements = Pass(), Clock(seconds), 0
    for given in batches:
        batch = on_host(given)
        tensors = list(leaves(batch))
        found.digests.append(digest([tensor for _, tensor in tensors]))
        found.last_size = samples_of([tensor for _, tensor in tensors])
        found.samples += found.last_size
        for name, tensor in tensors:
            known = found.fields.setdefault(name, Field(name, str(tensor.dtype), tuple(tensor.shape)))
            _add(known, tensor, found.last_size)
        elements += sum(tensor.numel() for _, tensor in tensors)
        if elements <= _KEPT_ELEMENTS:
            found.kept.append(batch)
        if not clock.left():
            found.whole = False
            break
    return found


def _add(known: Field, tensor: Tensor, samples: int) -> None:
    if tensor.is_complex() or not tensor.numel() or tensor.layout is not torch.strided:
        return
    values = tensor.double()
    finite = values[values.isfinite()]
    if finite.numel():
        known.low, known.high = min(known.low, float(finite.min())), max(known.high, float(finite.max()))
    known.count += values.numel()
    known.integral = known.integral and bool((finite == finite.round()).all())
    if tensor.ndim and tensor.shape[0] == samples and tensor.numel() == samples and len(known.labels) < _MOST_LABELS:
        known.labels += values.flatten().tolist()
        known.lengths.append(samples)
    flat = _by_feature(values.nan_to_num(0.0, 0.0, 0.0))
    if flat is None or (known.total is not None and known.total.shape[0] != flat.shape[1]):
        return
    known.total = flat.sum(0) if known.total is None else known.total + flat.sum(0)
    known.squares = flat.pow(2).sum(0) if known.squares is None else known.squares + flat.pow(2).sum(0)
    known.rows += flat.shape[0]


def _by_feature(values: Tensor) -> Tensor | None:
    """(rows, features): columns of a table, channels of a picture, the last dimension of a sequence."""
    if values.ndim < 2:
        return values.reshape(-1, 1)
    if values.ndim >= 4 and values.shape[1] <= values.shape[-1]:
        return values.movedim(1, -1).reshape(-1, values.shape[1])
    return values.reshape(-1, values.shape[-1]) if values.shape[-1] <= 4096 else None
