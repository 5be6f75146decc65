"""Finds a searcher that keeps the worst: an accuracy to be made small, a loss to be made large."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.seen import Experiment

_LARGE_IS_GOOD = {"acc", "accuracy", "f1", "auc", "auroc", "precision", "recall", "iou", "miou", "map", "bleu", "psnr"}
_SMALL_IS_GOOD = {"loss", "perplexity", "ppl", "rmse", "mse", "mae", "wer", "cer"}


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    metric = document.find("searcher", "metric")
    words = set(re.split(r"[^a-z0-9]+", document.text("searcher", "metric").lower()))
    written = document.find("searcher", "smaller_is_better")
    small = document.text("searcher", "smaller_is_better").lower()
    if metric is None or (words & _LARGE_IS_GOOD and words & (_SMALL_IS_GOOD | {"error", "distance"})):
        return
    if words & _LARGE_IS_GOOD and small in {"", "true"}:
        how = "smaller_is_better is true" if written else "smaller_is_better is true unless it is given"
        wrong, right = "smallest", "false"
    elif words & _SMALL_IS_GOOD and small == "false":
        how, wrong, right = "smaller_is_better is false", "largest", "true"
    else:
        return
    node = written.value if written else metric.value
    yield Finding(
        f"the search keeps the {wrong} `{document.text('searcher', 'metric')}`: {how}",
        document.at(node),
        help=f"write `smaller_is_better: {right}` under `searcher`",
    )
