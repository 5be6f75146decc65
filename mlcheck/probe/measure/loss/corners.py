"""Boxes of a batch that a program reads as two corners: the sides it takes them to have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import leaves

SUBTRACTIONS = {torch.sub, torch.subtract, Tensor.sub, Tensor.subtract, Tensor.__sub__}
LARGER = {torch.max, torch.maximum, Tensor.max, Tensor.maximum}
SMALLER = {torch.min, torch.minimum, Tensor.min, Tensor.minimum}
_MOVES = {Tensor.to, Tensor.cuda, Tensor.float, Tensor.double, Tensor.clone, Tensor.contiguous}
_JOINS = {torch.cat, torch.concat, torch.concatenate, torch.stack, torch.vstack}
_CHOICES = {Tensor.__getitem__, torch.index_select, Tensor.index_select}
_BOX = re.compile(r"box", re.IGNORECASE)
NUMBERS = 4


@dataclass(frozen=True, slots=True)
class Sides:
    """`negative` of the sides of `boxes` of the batch's `name` are below 0, where the program subtracts at `place`."""

    name: str
    boxes: int
    negative: int
    place: Location


class Corners:
    """Sees the second pair of numbers of a box less the first, of what a batch holds as boxes.

    Four numbers are boxes by their name, or where the program intersects them: the larger of first pairs, the smaller
    of second ones.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._larger: set[str] = set()
        self._smaller: set[str] = set()
        self._sides: list[Sides] = []
        self._moved: list[Tensor] = []  # kept, so that nothing else comes to lie where they do

    @property
    def found(self) -> list[Sides]:
        boxes = self._larger & self._smaller
        return [sides for sides in self._sides if _BOX.search(sides.name) or sides.name in boxes]

    def know(self, batch: Any) -> None:
        for name, leaf in leaves(batch):
            if leaf.is_floating_point() and leaf.layout is torch.strided and leaf.shape[-1:] == (NUMBERS,):
                self._names[leaf.untyped_storage().data_ptr()] = name

    def see(self, func: Any, tensors: list[Tensor], result: Tensor) -> None:
        self._follow(func, tensors, result)
        if len(tensors) != 2 or func not in SUBTRACTIONS | LARGER | SMALLER:
            return
        if func not in SUBTRACTIONS:
            for tensor in tensors:
                name, start = self._part(tensor)
                if name and start == (0 if func in LARGER else NUMBERS // 2):
                    (self._larger if func in LARGER else self._smaller).add(name)
            return
        (name, start), (other, first) = map(self._part, tensors)
        if name and name == other and start - first == NUMBERS // 2 and tensors[0].shape == tensors[1].shape:
            sides = result.detach()
            boxes = sides.numel() // (sides.shape[-1] if sides.stride()[-1:] == (1,) and sides.ndim > 1 else 1)
            self._sides.append(Sides(name, boxes, int((sides < 0).sum()), user_location()))

    def _follow(self, func: Any, tensors: list[Tensor], result: Tensor) -> None:
        """Boxes on another device, of another type, some of them, and those of several pictures are still boxes."""
        boxes = tensors if func in _JOINS else tensors[:1]
        names = [self._names.get(each.untyped_storage().data_ptr(), "") for each in boxes]
        kept = func in _MOVES | _JOINS or (func in _CHOICES and _chooses_rows(tensors, result))
        if kept and names and all(names) and all(each.shape[-1:] == (NUMBERS,) for each in (*boxes, result)):
            self._names[result.untyped_storage().data_ptr()] = names[0]
            self._moved.append(result)

    def _part(self, tensor: Tensor) -> tuple[str, int]:
        """Of which boxes it holds some numbers, and from which on; no name for anything else."""
        if tensor.layout is not torch.strided or not tensor.ndim or not tensor.numel():
            return "", 0
        name = self._names.get(tensor.untyped_storage().data_ptr(), "")
        rows = [stride for stride in tensor.stride() if stride != 1]
        whole = tensor.shape[-1] == NUMBERS and tensor.stride()[-1] == 1
        return (
            ("", 0)
            if whole or any(stride % NUMBERS for stride in rows)
            else (name, int(tensor.storage_offset()) % NUMBERS)
        )


def _chooses_rows(tensors: list[Tensor], result: Tensor) -> bool:
    """Whether whole rows were picked, by a mask or by their numbers; picked columns are no corners in their order."""
    return len(tensors) == 2 and torch.equal(tensors[0][tensors[1]], result)
