"""The usual metrics of predicted classes, by each average that they may be taken by.

Written out, because importing scikit-learn takes longer than all that is measured with it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def recomputed(predicted: Tensor, truth: Tensor, ranking: Tensor | None) -> dict[str, dict[str, float]]:
    """`ranking` holds scores of the larger of two classes. A ratio without samples is 0."""
    classes = torch.unique(torch.cat([predicted, truth]))
    said, there = (one[:, None] == classes for one in (predicted, truth))
    right = (said & there).sum(0)
    accuracy = float(right.sum() / len(truth))
    recall = _ratio(right, there.sum(0))
    by_class = {
        "f1": _ratio(2 * right, said.sum(0) + there.sum(0)),
        "precision": _ratio(right, said.sum(0)),
        "recall": recall,
    }
    found = {"accuracy": {"accuracy": accuracy, "balanced": float(recall[there.any(0)].mean())}}
    for name, values in by_class.items():
        weighted = float((values * there.sum(0)).sum() / len(truth))
        found[name] = {"macro": float(values.mean()), "micro": accuracy, "weighted": weighted}
        if set(classes.tolist()) <= {0, 1}:
            found[name]["binary"] = float(values[classes == 1].sum())
    if ranking is not None and bool(ranking.isfinite().all()) and len(torch.unique(truth)) == 2:
        found["auc"] = {"area": _area(ranking, truth == truth.max())}
    return found


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return part.double() / whole.clamp_min(1)


def _area(ranking: Tensor, positive: Tensor) -> float:
    """The share of pairs in which the positive has the larger score; equal ones count half."""
    above, below = ranking[positive].contiguous(), ranking[~positive].sort().values
    less, at_most = (torch.searchsorted(below, above, right=right) for right in (False, True))
    return float((less + at_most).sum() / (2 * len(above) * len(below)))
