"""One copy of a model and the model, step by step: which weights move, and by what rule.

Where a step moves the copy, the decay d is the one that fits copy' = d copy + (1 - d) model best; the residual says
whether that recurrence describes the step at all (Polyak averaging; torch.optim.swa_utils.AveragedModel). Where it
does not, copy' = a copy + b model may, with parts a and b that do not add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

_MOST_OBJECTS = 10_000
_FITS = 1e-3
_KEEPING = 0.5
_ROUNDING = 4  # units in the last place


@dataclass
class Copy:
    """One copy, by the name it hangs on. `decays` and `residuals` are those of the steps that moved it.

    `still` are weights and `still_statistics` running statistics that never moved although the model's did;
    `shared` lie in the model's own memory; where all of them are plain tensors, as in `model.state_dict()`, the copy is
    `viewed` only. `read` says that evaluation calls the copy, `reads_statistics` that it
    does so in evaluation mode, in which batch norm uses what it has stored. `left` is, for each training step, the
    part of the optimizer's step that remains where the program then draws the model back towards the copy;
    `overwritten` says that the model was the copy, bit for bit, after each of them.
    `taught` says that a training step calls the copy, `begins_alike` that weights of more than one value were the
    model's when it was first looked at.
    `parts` is, for each of the steps that moved it, what its own part and the model's add up to (nan: no such sum);
    `read_as_kept` says that evaluation calls the copy with the weights that the steps left in it.
    """

    name: str
    weights: int
    decays: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    parts: list[float] = field(default_factory=list)
    still: tuple[str, ...] = ()
    still_statistics: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    viewed: bool = False
    left: list[float] = field(default_factory=list)
    overwritten: bool = True
    read: bool = False
    taught: bool = False
    reads_statistics: bool = False
    read_as_kept: bool = False
    begins_alike: bool = True


class Follow:
    """One copy and the model it copies, step by step."""

    def __init__(self, name: str, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        self.name = name
        self._model = model
        self._weights = [key for key, _ in model.named_parameters()]
        self._statistics = [key for key, value in model.named_buffers() if value.is_floating_point()]
        self._copy, self._own = self._values(tensors), self._live()
        self._moved: set[str] = set()
        self._own_moved: set[str] = set()
        self._updated: dict[str, Tensor] | None = None
        drawn = [key for key in self._weights if (self._own[key] != self._own[key].flatten()[:1]).any()]
        alike = not drawn or any(torch.equal(self._copy[key], self._own[key]) for key in drawn)
        shared = tuple(self._shared(tensors))
        viewed = bool(shared) and not any(isinstance(tensors[f"{name}.{key}"], nn.Parameter) for key in shared)
        self._seen = Copy(name, len(self._weights), shared=shared, viewed=viewed, begins_alike=alike)

    def _live(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self._model.state_dict().items()}

    def _values(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names = (*self._weights, *self._statistics)
        return {name: tensors[key].detach().clone() for name in names if (key := f"{self.name}.{name}") in tensors}

    def _shared(self, tensors: Mapping[str, Tensor]) -> Iterator[str]:
        own = dict(self._model.named_parameters())
        for name in self._weights:
            copy = tensors[f"{self.name}.{name}"]
            if copy.numel() and copy.data_ptr() == own[name].data_ptr():
                yield name

    @property
    def averages(self) -> bool:
        """Whether it keeps the larger part of itself at a step."""
        return max(self._seen.decays, default=0.0) > _KEEPING

    def updated(self) -> None:
        self._updated = self._live()

    def stepped(self, tensors: Mapping[str, Tensor]) -> None:
        """Note what the step did to the copy and to the model, and the decay that explains it."""
        copy, own = self._values(tensors), self._live()
        before, self._copy = self._copy, copy
        model = self._drawn_back(before, own)
        self._seen.overwritten &= model is not own and all(torch.equal(own[name], copy[name]) for name in self._weights)
        moved = {name for name in copy if name in before and not torch.equal(copy[name], before[name])}
        self._own_moved |= {name for name in own if not torch.equal(own[name], self._own[name])}
        self._own = own
        self._moved |= moved
        weights = [name for name in self._weights if name in moved]
        if weights:
            triples = [(before[name], copy[name], model[name]) for name in weights]
            decay, residual = _decay(triples)
            self._seen.decays.append(decay)
            self._seen.residuals.append(residual)
            self._seen.parts.append(1.0 if residual < _FITS else _parts(triples))

    def _drawn_back(self, copy: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """After the optimizer's step: model' - copy = left (model - copy). Returns the model that the copy followed."""
        updated, self._updated = self._updated, None
        if updated is None or all(torch.equal(own[name], updated[name]) for name in self._weights):
            self._seen.left.append(1.0)
            return own
        left, residual = _decay([(updated[name], own[name], copy[name]) for name in self._weights])
        self._seen.left.append(left if residual < _FITS else 1.0)
        return updated

    def watch(self, objects: Iterable[object], taught: bool = False) -> list[RemovableHandle]:
        """Hooks on the copy's modules, where it is a module: whether evaluation or training calls it, and how."""
        first = self._copy[self._weights[0]]
        live = {id(module) for module in self._model.modules()}
        owners = [
            module
            for module in _modules(objects)
            for weight in module.parameters(recurse=False)
            if id(module) not in live and _same(weight, first)
        ]

        def called(module: nn.Module, _inputs: object) -> None:
            self._seen.taught |= taught
            if taught:
                return
            self._seen.read = True
            self._seen.reads_statistics |= not module.training
            self._seen.read_as_kept |= any(_same(weight, first) for weight in module.parameters(recurse=False))

        return [module.register_forward_pre_hook(called) for module in owners]

    def evaluated(self, tensors: Mapping[str, Tensor]) -> None:
        """Evaluation, too, may bring the copy up to date."""
        copy = self._values(tensors)
        self._moved |= {name for name in copy if name in self._copy and not torch.equal(copy[name], self._copy[name])}

    def told(self) -> Copy:
        still = [name for name in self._copy if name in self._own_moved and name not in self._moved]
        lagging = [name for name in still if self._would_show(name)]
        self._seen.still = tuple(name for name in lagging if name in self._weights)
        self._seen.still_statistics = tuple(name for name in lagging if name in self._statistics)
        return self._seen

    def _would_show(self, name: str) -> bool:
        """Whether an average with this decay would have moved: a bias before batch norm goes by less than rounding."""
        copy, own = self._copy[name], self._own[name]
        part = 1 - max((decay for decay in self._seen.decays if 0 < decay < 1), default=0.0)
        return bool(((own - copy).abs() * part > _ROUNDING * torch.finfo(copy.dtype).eps * copy.abs()).any())


def _decay(triples: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[float, float]:
    """The d of least squares in copy' - model = d (copy - model), and what it leaves, relative to the left side."""
    before = torch.cat([(copy.double() - model.double()).flatten() for copy, _, model in triples])
    after = torch.cat([(moved.double() - model.double()).flatten() for _, moved, model in triples])
    square = float(before @ before)
    if square == 0.0:
        return math.nan, math.inf
    decay = float(before @ after) / square
    scale = max(float(after.norm()), float(before.norm()))
    return decay, float((after - decay * before).norm()) / scale


def _parts(triples: list[tuple[Tensor, Tensor, Tensor]]) -> float:
    """a + b of least squares in copy' = a copy + b model; nan where that leaves more than rounding of the move."""
    before, after, model = (torch.cat([tensor.double().flatten() for tensor in side]) for side in zip(*triples))
    both = torch.stack([before, model], dim=1)
    parts = torch.linalg.pinv(both.T @ both, hermitian=True) @ (both.T @ after)
    left = float((after - both @ parts).norm())
    return float(parts.sum()) if left < _FITS * float((after - before).norm()) else math.nan


def _same(weight: Tensor, other: Tensor) -> bool:
    return weight.shape == other.shape and torch.equal(weight, other)


def _modules(objects: Iterable[object]) -> Iterator[nn.Module]:
    """All modules that hang on these objects, each once."""
    seen: set[int] = set()
    waiting: list[object] = list(objects)
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, nn.Module):
            yield from one.modules()
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif hasattr(one, "__dict__") and not isinstance(one, type | ModuleType | Tensor):
            waiting += vars(one).values()
