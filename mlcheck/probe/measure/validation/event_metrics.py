"""Which samples an evaluation takes for events: its metrics beside those of a Cox model, for one flag and the other."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.probe.measure.validation.logged import metrics_alone, numbers
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_SAME = 1e-5
_FEW = 8


def flag_of_events(trial: Trial, event: str, time: str) -> bool | None:
    """The value of `event` that makes a metric what is reported, where the other value does not; None if none does."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return None
    batch = next(iter(trial.validation_batches()), None)
    given = {name: leaf.detach().cpu().double().flatten() for name, leaf in leaves(batch)}
    if event not in given or time not in given or not {0.0, 1.0} >= {*given[event].tolist()}:
        return None
    ended, until = given[event] > 0, given[time]
    with restored(trial), ModuleWatch() as watch:
        found = numbers(metrics_alone(trial, copied(batch)))
    outputs = [leaf for call in watch.calls for _, leaf in leaves(call.output) if leaf.numel() == len(ended)]
    if len(outputs) != 1 or min(int(ended.sum()), int((~ended).sum())) < _FEW:
        return None
    scores = outputs[0].detach().cpu().double().flatten()
    told = {flag for flag in (True, False) if _is_among(found.values(), _references(scores, until, ended == flag))}
    return told.pop() if len(told) == 1 else None


def _is_among(reported: Iterable[float], references: list[float]) -> bool:
    return any(abs(one - other) <= _SAME * max(1.0, abs(other)) for one in reported for other in references)


def _references(scores: Tensor, until: Tensor, ended: Tensor) -> list[float]:
    """Partial likelihoods, as a sum and as means; the share of pairs in the right order, and in the wrong one."""
    among = scores[None].masked_fill(until[None] < until[:, None], -torch.inf).logsumexp(1)
    costs = -float(((scores - among) * ended).sum())
    pairs = (until[:, None] < until[None]) & ended[:, None]
    right = float(((scores[:, None] > scores[None]) & pairs).sum()) / max(1, int(pairs.sum()))
    return [costs, costs / len(ended), costs / int(ended.sum()), right, 1 - right]
