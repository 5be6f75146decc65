"""A batch put together by the loader's own collate function from samples that are known."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from mlcheck.core.finding import Location
from mlcheck.probe.measure.data.sample_tensors import sample_leaves
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.place import as_given
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

SAMPLES = 32
DRAWS = 4


@dataclass(frozen=True, slots=True)
class Collated:
    """Which sample each row of a batch came from, told by its input, against the label in that row.

    `apart` counts the rows whose label is not that of the sample the input came from. `inputs` are `repeated` where
    every row of them is one and the same sample. Where no label is one number, two parts of a sample are compared: a
    picture and its boxes, in a list of what belongs to each.
    """

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 5

    samples: int
    inputs: str
    label: str
    apart: int
    place: Location
    repeated: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one batch, whatever the limit
        loader = trial.loaders.get("training")
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            raise NotMeasured("the training loader does not read from a data set that can be asked for a sample")
        if loader.collate_fn is default_collate or loader.batch_size is None:
            raise NotMeasured("batches are put together by torch's own collate function")
        raw = _read(loader)
        first = cls._once(loader, raw, 0)
        for seed in range(1, DRAWS if not (first.apart or first.repeated) else 1):
            with suppress(NotMeasured):  # what a function does now and then only
                again = cls._once(loader, raw, seed)
                if again.apart or again.repeated:
                    return again
        return first

    @classmethod
    def _once(cls, loader: DataLoader[Any], raw: list[Any], seed: int) -> Self:
        samples, batch = _batch(loader, raw, seed)
        if name := _repeated(samples, batch):
            return cls(len(samples), part_of("batch", name), "", 0, _place(loader.collate_fn), True)
        label = _label(samples, batch)
        if label is None:
            followed, wrong = _parts_apart(samples, batch)
            return cls(len(samples), *followed, wrong, _place(loader.collate_fn))
        for name, rows in leaves(batch):
            origin = _origins(rows, samples)
            if origin is not None and name != label[0]:
                wrong = sum(label[1][row] != label[2][source] for row, source in enumerate(origin))
                followed = part_of("batch", name), part_of("batch", label[0])
                return cls(len(samples), *followed, wrong, _place(loader.collate_fn))
        for name, origin in _packed(samples, batch):
            wrong = sum(label[1][row] != label[2][source] for row, source in enumerate(origin))
            return cls(
                len(samples), part_of("batch", name), part_of("batch", label[0]), wrong, _place(loader.collate_fn)
            )
        raise inconclusive("no input of the batch can be recognised as that of a sample (mixed, cropped or packed)")


Parts = dict[str, Tensor]


def _read(loader: DataLoader[Any]) -> list[Any]:
    """Samples, read by index."""
    seed_all(0)
    size = len(loader.dataset)  # type: ignore[arg-type]
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:SAMPLES].tolist()
    try:
        return [loader.dataset[index] for index in order]
    except Exception as error:
        raise inconclusive(f"samples cannot be read one by one: {error_line(error)}") from error


def _batch(loader: DataLoader[Any], raw: list[Any], seed: int) -> tuple[list[Parts], Any]:
    """What the samples hold, and what the collate function makes of them under these random numbers."""
    seed_all(seed)
    try:
        return [dict(sample_leaves(sample)) for sample in raw], loader.collate_fn(list(raw))
    except Exception as error:
        raise inconclusive(f"samples cannot be read one by one: {error_line(error)}") from error


def _repeated(samples: list[Parts], batch: Any) -> str:
    """The tensor of the batch whose rows are all one of the samples, although these differ; empty if there is none.

    A sample of one number, or of one number throughout, is not recognised by it: a mask of what was padded is no label.
    """
    for name, rows in leaves(batch):
        if rows.ndim < 2 or rows.shape[0] != len(samples) or rows[0].numel() < 2 or bool((rows != rows[:1]).any()):
            continue
        for part in samples[0]:
            own = [sample[part] for sample in samples if part in sample]
            telling = [one for one in own if one.numel() > 1 and bool((one != one.flatten()[0]).any())]
            if any(one.shape != own[0].shape or not torch.equal(one, own[0]) for one in own) and _which(
                rows[0], telling
            ):
                return name
    return ""


def _label(samples: list[Parts], batch: Any) -> tuple[str, list[float], list[float]] | None:
    """The tensor of the batch that holds one number a sample, those numbers, and the samples' own in order.

    Only where the two hold the same numbers, in the samples' order or another.
    """
    single = [name for name, part in samples[0].items() if part.numel() == 1]
    for name, rows in leaves(batch):
        if rows.numel() != len(samples):
            continue
        for part in single:
            alone = [sample[part] for sample in samples if part in sample and sample[part].numel() == 1]
            own = [float(number.to(rows.dtype)) for number in alone]
            given = [float(value) for value in rows.flatten()]
            if sorted(own) == sorted(given) and len(set(own)) > 1:
                return name, given, own
    return None


def _parts_apart(samples: list[Parts], batch: Any) -> tuple[tuple[str, str], int]:
    """Two parts of the samples by their names in the batch, and in how many rows they are those of different samples.

    Only parts that the batch holds once: what stands beside another sample's on purpose, it holds twice.
    """
    found = [(name, *seen) for name, rows in _fields(batch, len(samples)) if (seen := _told(rows, samples)) is not None]
    parts = [part for _, part, _ in found]
    first, *others = [(name, places) for name, part, places in found if parts.count(part) == 1] or [("", [])]
    if not others:
        raise NotMeasured("a batch has no two parts of its samples to follow")
    counted = [(name, sum(not mine & theirs for mine, theirs in zip(first[1], places))) for name, places in others]
    name, wrong = max(counted, key=lambda one: one[1])
    return (part_of("batch", first[0]), part_of("batch", name)), wrong


def _fields(batch: Any, count: int) -> Iterator[tuple[str, list[Tensor]]]:
    """What a batch holds for each of its samples, as rows of a tensor or in a list of as many."""
    parts = (
        batch.items() if isinstance(batch, Mapping) else enumerate(batch if isinstance(batch, (list, tuple)) else ())
    )
    for key, value in parts:
        if isinstance(value, Tensor) and value.ndim > 1 and len(value) == count:
            yield str(key), list(value)
        elif isinstance(value, (list, tuple)) and len(value) == count:
            each = [dict(leaves(one)) for one in value]
            for name in each[0]:
                if all(name in one for one in each):
                    yield f"{key}.0.{name}".rstrip("."), [one[name] for one in each]


def _told(rows: list[Tensor], samples: list[Parts]) -> tuple[str, list[set[int]]] | None:
    """The part of the samples that each row is, and of which samples it may be; most of them of one alone."""
    for part in samples[0]:
        own = [sample[part] for sample in samples if part in sample and sample[part].numel() > 1]
        places = [set(_which(row, own)) for row in rows] if len(own) == len(samples) else []
        if places and all(places) and 2 * sum(len(one) == 1 for one in places) > len(places):
            return part, places
    return None


def _origins(rows: Tensor, samples: list[Parts]) -> list[int] | None:
    """The sample that each row of the batch is, up to padding; None unless every one is recognised."""
    if rows.ndim < 2 or rows.shape[0] != len(samples):
        return None
    for part in samples[0]:
        own = [sample.get(part) for sample in samples]
        if any(one is None or one.numel() < 2 for one in own):
            continue
        found = [_which(row, own) for row in rows]  # type: ignore[arg-type]
        if all(len(places) == 1 for places in found):
            return [places[0] for places in found]
    return None


def _packed(samples: list[Parts], batch: Any) -> Iterator[tuple[str, list[int]]]:
    """Parts that stand one behind the other, in order, with whole numbers beside them that say which row each is of.

    Gives the numbers' name and the sample that each row comes from, where these numbers are one a sample.
    """
    parts = dict(leaves(batch))
    for part in samples[0]:
        own = [sample[part] for sample in samples if part in sample and sample[part].ndim]
        if len(own) < len(samples) or len({one.shape[1:] for one in own}) > 1:
            continue
        whole, sizes = torch.cat(own), [len(one) for one in own]
        joined = any(one.dtype is whole.dtype and torch.equal(one, whole) for one in parts.values())
        if len(whole) == len(samples) or not joined:
            continue
        for name, rows in parts.items():
            if rows.shape == whole.shape[:1] and not rows.is_floating_point():
                owners = [set(block.tolist()) for block in torch.split(rows, sizes)]
                if sorted(owner for one in owners for owner in one) == list(range(len(samples))):
                    said = [owner for (owner,) in owners] if all(len(one) == 1 for one in owners) else []
                    yield from [(name, [said.index(row) for row in range(len(samples))])] if said else []


def _which(row: Tensor, own: list[Tensor]) -> list[int]:
    return [place for place, one in enumerate(own) if _is_padded(row.cpu(), one)]


def _is_padded(row: Tensor, one: Tensor) -> bool:
    """Whether a row begins with a sample and repeats one number behind it."""
    if row.ndim != one.ndim or row.shape[1:] != one.shape[1:] or len(row) < len(one):
        return False
    rest = row[len(one) :]
    return torch.equal(row[: len(one)].double(), one.double()) and (
        not rest.numel() or bool((rest == rest.flatten()[0]).all())
    )


def _place(collate: Any) -> Location:
    try:
        return Location(
            as_given(inspect.getsourcefile(collate) or ""), inspect.getsourcelines(collate)[1], symbol=collate.__name__
        )
    except (OSError, TypeError, AttributeError):
        return Location()
