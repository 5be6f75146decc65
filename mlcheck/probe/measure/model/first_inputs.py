"""The data as it enters the first layer with weights: its scale, feature by feature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mlcheck.probe.measure.data.pixel_order import PixelOrder, pixel_order
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.own_products import OwnProducts, own_parameters
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

BATCHES = 3
_FEW_ROWS = 4
_MOST_COLUMNS = 256
_ENOUGH_ROWS = 4096
_SELDOM = 0.1
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)


@dataclass(frozen=True, slots=True)
class FirstInput:
    """What a layer gets straight from the data, no trained module before it.

    `spreads` are per feature. `scales` are those of the features that leave their commonest value often enough to
    have a scale: no pixel at the edge, no rare event.

    Of a row that holds embeddings beside numbers of the batch it is these numbers.

    `shape` is that of one sample. `kind` is `linear` (over whatever comes last), `convolution` (features come first) or
    `recurrent` (features come last). `pixels` is the order of its numbers where they are pictures of several channels.
    """

    layer: str
    rms: float
    low: float
    high: float
    spreads: tuple[float, ...]
    scales: tuple[float, ...] = ()
    pixels: PixelOrder | None = None
    shape: tuple[int, ...] = ()
    kind: str = "linear"


@dataclass(frozen=True, slots=True)
class FirstInputs:
    """Layers that see the data itself, in three batches; `own` are parameters that do, without a layer around them."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    inputs: tuple[FirstInput, ...]
    own: tuple[FirstInput, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps, whatever the limit
        names = Names(trial.models)
        kept: dict[nn.Module, list[Tensor]] = {}
        columns: list[Tensor] = []

        def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
            given = args[0] if args and torch.is_grad_enabled() else None  # else nothing hidden wants a gradient either
            given = given.data if isinstance(given, PackedSequence) else given
            if not isinstance(given, Tensor) or not given.is_floating_point() or given.ndim < 2 or not given.numel():
                return
            straight = given if not given.requires_grad else _among(given.detach(), columns)
            if straight is not None:
                kept.setdefault(module, []).append(straight.detach().cpu())

        hooks = [
            module.register_forward_pre_hook(keep)
            for model in trial.models.values()
            for module in model.modules()
            if isinstance(module, _WEIGHTED)
        ]
        products = OwnProducts(own_parameters(trial.models.values(), names))
        try:
            with stilled(trial), torch.enable_grad(), products:
                seed_all(0)
                for index, batch in enumerate(first_batches(trial, BATCHES)):
                    columns[:] = _columns(batch)
                    trial.train_step(batch, index)
        finally:
            for hook in hooks:
                hook.remove()
        found = tuple(_input(names.module(module), module, given) for module, given in kept.items())
        own = tuple(_input(name, nn.Identity(), given) for name, given in products.given.items())
        if not found and not own:
            raise NotMeasured(
                "no layer with weights gets numbers straight from the data (embeddings, norms come first)"
            )
        return cls(found, own)


def _columns(batch: Any) -> list[Tensor]:
    """The numbers of a batch, a column for each feature of a table."""
    tables = [tensor for _, tensor in leaves(batch) if tensor.is_floating_point() and 1 <= tensor.ndim <= 2]
    return [
        column
        for table in tables
        if table.numel() and (table.shape[-1] <= _MOST_COLUMNS or table.ndim == 1)
        for column in table.detach().reshape(len(table), -1).unbind(1)
        if len(column) >= _FEW_ROWS and bool((column != column[0]).any())
    ]


def _among(given: Tensor, columns: list[Tensor]) -> Tensor | None:
    """Those columns of a layer's input that are the batch's own numbers, bit for bit."""
    if given.ndim != 2 or given.shape[1] > _MOST_COLUMNS:
        return None
    mine = [column.to(given) for column in columns if len(column) == len(given)]
    if not mine:
        return None
    begins = torch.stack(mine)[:, :_FEW_ROWS]
    like = (given[:_FEW_ROWS].T.unsqueeze(1) == begins.unsqueeze(0)).all(2).nonzero().tolist()
    found = sorted({place for place, column in like if torch.equal(given[:, place], mine[column])})
    return given[:, found] if found else None


def _input(name: str, module: nn.Module, given: list[Tensor]) -> FirstInput:
    values = torch.cat([tensor.double().flatten() for tensor in given]).nan_to_num(0.0, 0.0, 0.0)
    channels = isinstance(module, nn.modules.conv._ConvNd)
    rows = [(t.movedim(1, -1) if channels else t).reshape(-1, t.shape[1 if channels else -1]).double() for t in given]
    same = len({row.shape[1] for row in rows}) == 1
    spreads, scales = _spreads(torch.cat(rows).nan_to_num(0.0, 0.0, 0.0)) if same else ((), ())
    rms, pixels = math.sqrt(float(values.pow(2).mean())), pixel_order(given) if channels else None
    low, high, shape = float(values.min()), float(values.max()), tuple(given[0].shape[1:])
    kind = "convolution" if channels else "recurrent" if isinstance(module, nn.RNNBase) else "linear"
    return FirstInput(name, rms, low, high, spreads, scales, pixels, shape, kind)


def _spreads(rows: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    spreads = rows.std(0, correction=0)
    some = rows[:: max(1, len(rows) // _ENOUGH_ROWS)]
    often = (some != some.median(0).values).double().mean(0) > _SELDOM
    return tuple(spreads.tolist()), tuple(spreads[often].tolist())
