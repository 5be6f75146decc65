"""What the name of a metric says it is: a share of samples, a mean over them, a count."""

from __future__ import annotations

import re

_PREFIX = r"^(?:val|valid|validation|test|eval|dev)?[_/. ]?"
NAMES = {
    "accuracy": re.compile(_PREFIX + r"(?:acc|accuracy|top1|top_1)$"),
    "f1": re.compile(_PREFIX + r"(?:f1|f1_score)$"),
    "precision": re.compile(_PREFIX + r"precision$"),
    "recall": re.compile(_PREFIX + r"recall$"),
    "auc": re.compile(_PREFIX + r"(?:auc|auroc|roc_auc)$"),
}
MEANS = re.compile(_PREFIX + r"(?:loss|nll|bce|ce|cross_entropy)$|(?:^|[_\W])(?:mae|mse|rmse)(?:$|[_\W])")
_HELD_OUT = re.compile(r"(^|[_\W])(val|valid|validation|test|eval|dev)($|[_\W])")
_SHARES = re.compile(r"(^|[_\W])(acc|accuracy|top1|precision|recall|f1|iou|miou|jaccard|dice)($|[_\W])")
_RATIOS = re.compile(
    r"(^|[_\W])(coverage|specificity|sensitivity|ndcg|mrr|rate|ratio|share|fraction|percent|mean|avg|average)($|[_\W])"
)
COUNTS = re.compile(r"(^|[_\W])(sum|count|counts|total|correct)($|[_\W])")
_PLAIN = re.compile(r"(^|[_\W])(acc|accuracy|top1)($|[_\W])")
_BY_CLASS = re.compile(r"balanced|macro|mean|class|avg|average")


def is_share(name: str) -> bool:
    return bool(_SHARES.search(name.lower())) and not COUNTS.search(name.lower())


def is_of_any_size(name: str) -> bool:
    """Whether it is named for what does not grow with the number of samples."""
    return is_share(name) or (bool(_RATIOS.search(name.lower())) and not COUNTS.search(name.lower()))


def is_plain_accuracy(name: str) -> bool:
    """Not one that is averaged over classes."""
    return bool(_PLAIN.search(name.lower()) and not _BY_CLASS.search(name.lower()))


def is_held_out(name: str) -> bool:
    """Whether it is named as one of data that is not trained on, or is an accuracy and no more."""
    return bool(_HELD_OUT.search(name.lower()) or NAMES["accuracy"].match(name.lower()))
