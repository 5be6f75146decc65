"""Which way a metric is good, as far as its name says."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

_LARGE_IS_GOOD = {"acc", "accuracy", "f1", "auc", "auroc", "precision", "recall", "iou", "miou", "map", "bleu", "psnr"}
_SMALL_IS_GOOD = {"loss", "perplexity", "ppl", "rmse", "mse", "mae", "wer", "cer"}
_MAY_BE_EITHER = {"error", "err", "distance", "gap", "drop", "diff", "difference", "regret", "shortfall"}
_OF_PAIRS = {"auc", "auroc", "rocauc", "cindex", "concordance"}
_OF_WHAT_IS_AMISS = {"error", "err", "regret", "shortfall"}


def best(name: str) -> Literal["smallest", "largest", ""]:
    """The value of this metric that is best; empty where its name does not say, or says both."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & _LARGE_IS_GOOD:
        return "" if words & (_SMALL_IS_GOOD | _MAY_BE_EITHER) else "largest"
    return "smallest" if words & _SMALL_IS_GOOD else ""


def tells_what_is_amiss(name: str) -> bool:
    """Whether it is named for an error or the like, and for nothing that is good when large."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    return bool(words & _OF_WHAT_IS_AMISS) and not words & _LARGE_IS_GOOD


def is_share_of_pairs(name: str) -> bool:
    """Whether it is named for the share of pairs in the right order, which is a half where nothing is known."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    pairs = {f"{one}{other}" for one, other in pairwise(words)}
    return bool(_OF_PAIRS & {*words, *pairs}) and not {"pr", "prauc"} & {*words, *pairs}
