"""Tokens that give a label away: one for each class that all of its sequences hold, and no others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.examples import has_classes, target_field
from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

FEW = 200
FEW_A_CLASS = 20
MOST = 4000
MOST_TOKENS = 50_000
CLEARLY = 0.2


@dataclass(frozen=True, slots=True)
class LabelTokens:
    """`tokens` of the input `source`, one for each class of `target`, in `samples`.

    `rest` is the share of labels that all other tokens tell by their counts, `chance` that of the commonest class.
    """

    source: str
    target: str
    tokens: tuple[int, ...]
    samples: int
    rest: float
    chance: float


def label_tokens(split: Pass, first: FirstLoss) -> LabelTokens | None:
    """None where no token stands for each class, or where the others tell nothing: finding it is then the task."""
    target = target_field(split, first)
    if target is None or not has_classes(target, first):
        return None
    for source in first.inputs:
        bags = _bags(split, source, target.name)
        if bags is None or len(bags[1]) < FEW:
            continue
        counts, labels = bags
        tokens = _one_a_class(counts > 0, labels)
        if not tokens:
            continue
        others = counts.clone()
        others[:, list(tokens)] = 0
        rest, chance = _told(others, labels), float(labels.bincount().max()) / len(labels)
        if rest > chance + CLEARLY:
            return LabelTokens(part_of("batch", source), target.place, tokens, len(labels), rest, chance)
    return None


def _bags(split: Pass, source: str, target: str) -> tuple[Tensor, Tensor] | None:
    """How often each token is in each sequence, and the labels; padding counts as a token like any other."""
    rows, labels = [], []
    for batch in split.kept:
        found = dict(leaves(batch))
        ids, truth = found.get(source), found.get(target)
        if ids is None or truth is None or ids.ndim != 2 or ids.is_floating_point() or len(ids) != truth.numel():
            return None
        if ids.dtype is torch.bool or int(ids.min()) < 0 or int(ids.max()) >= MOST_TOKENS:
            return None
        rows += list(ids.detach().cpu().long())
        labels.append(truth.detach().cpu().long().flatten())
        if len(rows) >= MOST:
            break
    if not rows:
        return None
    width = 1 + max(int(row.max()) for row in rows)
    if width * len(rows) > MOST * MOST_TOKENS // 10:
        return None
    return torch.stack([row.bincount(minlength=width) for row in rows]).float(), torch.cat(labels)


def _one_a_class(held: Tensor, labels: Tensor) -> tuple[int, ...]:
    """For each class the first token that all of its sequences hold and no other does; empty unless all have one."""
    classes = [labels == one for one in torch.unique(labels).tolist()]
    if len(classes) < 2 or min(int(mine.sum()) for mine in classes) < FEW_A_CLASS:
        return ()
    found = []
    for mine in classes:
        sure = held[mine].all(0) & ~held[~mine].any(0)
        if not bool(sure.any()):
            return ()
        found.append(int(sure.nonzero()[0, 0]))
    return tuple(found)


def _told(counts: Tensor, labels: Tensor) -> float:
    """The accuracy of naive Bayes on the second half of the samples, learnt on the first."""
    half = len(labels) // 2
    classes = torch.unique(labels)
    known = torch.stack([1 + counts[:half][labels[:half] == one].sum(0) for one in classes])
    scores = counts[half:] @ (known / known.sum(1, keepdim=True)).log().T
    return float((classes[scores.argmax(1)] == labels[half:]).double().mean())
