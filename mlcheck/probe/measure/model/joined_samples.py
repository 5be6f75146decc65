"""Samples that the loader's own collate function joins to one batch, against the same samples one by one.

For batches whose rows are no samples: the nodes and edges of several graphs in one tensor, values beside offsets.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from mlcheck.probe.measure.data.sample_tensors import digest
from mlcheck.probe.measure.drive import exclusively_evaluating
from mlcheck.probe.measure.model.exact_model import exact_copy
from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import copied, leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

SAMPLES = 4


def deviation_when_joined(trial: Trial) -> tuple[float, float | None] | None:
    """How far outputs of joined samples are from those of each alone, relative, and the same in float64.

    None where the loader does not join samples end to end, or the model's outputs cannot be compared.
    """
    loader = trial.loaders.get("training")
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return None
    if loader.collate_fn is default_collate or loader.batch_size is None or len(loader.dataset) < SAMPLES:  # type: ignore[arg-type]
        return None
    try:
        seed_all(0)
        samples = [loader.dataset[index] for index in range(SAMPLES)]
        joined = _call(trial, loader.collate_fn(copy.deepcopy(samples)))
        again = _call(trial, loader.collate_fn(copy.deepcopy(samples)))
        apart = [_call(trial, loader.collate_fn([copy.deepcopy(sample)])) for sample in samples]
    except Exception:  # a collate function or a loop that insists on a full batch
        return None
    if joined is None or again is None or any(call is None for call in apart):
        return None
    alone = [call for call in apart if call is not None]
    if _digest(joined) != _digest(again) or not _end_to_end(joined, alone):
        return None
    with exclusively_evaluating(iter(trial.models.values())), suppress(Exception):
        return _compared(joined, alone)
    return None


def _call(trial: Trial, batch: Any) -> CapturedCall | None:
    """The first call of a model in a step on this batch, whether the step then succeeds or not."""
    names = Names(trial.models)
    kept: list[CapturedCall] = []

    def keep(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        if not kept and names.knows(module):
            kept.append(CapturedCall(names.path(module), module, copied(args), copied(kwargs), 0))
        return args, kwargs

    with restored(trial), suppress(Exception), ModuleWatch(keep):
        trial.train_step(map_tensors(batch, lambda tensor: tensor.to(trial.device)), 0)
    return kept[0] if kept else None


def _digest(call: CapturedCall) -> bytes:
    return digest([tensor for _, tensor in leaves((call.args, call.kwargs))])


def _end_to_end(joined: CapturedCall, alone: list[CapturedCall]) -> bool:
    """Whether every input is as long as those of the samples together, along one dimension."""
    whole = dict(leaves((joined.args, joined.kwargs)))
    parts = [dict(leaves((call.args, call.kwargs))) for call in alone]
    if any(part.keys() != whole.keys() for part in parts) or not whole:
        return False
    return all(_adds_up(tensor, [part[name] for part in parts]) for name, tensor in whole.items())


def _adds_up(whole: Tensor, parts: list[Tensor]) -> bool:
    if any(part.ndim != whole.ndim for part in parts):
        return False
    longer = [dim for dim in range(whole.ndim) if any(part.shape[dim] != whole.shape[dim] for part in parts)]
    return len(longer) == 1 and sum(part.shape[longer[0]] for part in parts) == whole.shape[longer[0]]


def _compared(joined: CapturedCall, alone: list[CapturedCall]) -> tuple[float, float | None] | None:
    single = _difference(joined, alone, joined.module, lambda tensor: tensor)
    if single is None:
        return None
    with suppress(Exception):  # a model with its own precision, or that cannot be copied
        exact = exact_copy(joined.module)
        return single, _difference(joined, alone, exact, lambda t: t.double() if t.is_floating_point() else t)
    return single, None


def _difference(joined: CapturedCall, alone: list[CapturedCall], module: torch.nn.Module, change: Any) -> float | None:
    def outputs(call: CapturedCall) -> list[Tensor]:
        return call.replay(map_tensors((call.args, call.kwargs), change), module)

    together, parts = outputs(joined), [outputs(call) for call in alone]
    worst = 0.0
    for place, whole in enumerate(together):
        same = torch.cat([part[place] for part in parts])
        if same.shape != whole.shape:
            return None
        gap = float((whole.double() - same.double()).abs().max())
        worst = max(worst, gap / max(float(same.double().abs().max()), 1e-30))
    return worst if together else None
