"""Metrics by their names: which are better when they are higher, and which when they are lower."""

from __future__ import annotations

import re

_HIGH = frozenset(
    [
        *("acc", "accuracy", "f1", "auc", "auroc", "map", "miou", "iou", "dice", "bleu", "precision", "recall"),
        *("psnr", "ssim", "rouge", "meteor", "cider", "top1", "top5", "acc1", "acc5", "mcc", "kappa"),
    ]
)
_LOW = frozenset(
    [
        *("loss", "losses", "error", "err", "mse", "mae", "rmse", "nll", "ppl", "perplexity", "wer", "cer", "fid"),
        *("bpd", "mape", "smape"),
    ]
)
_ENDINGS = {"acc": "higher", "accuracy": "higher", "loss": "lower"}
"""`valacc`, `vloss`: written together with what they were measured on."""
_TURNED = frozenset(["neg", "negative", "minus", "inverse", "inv", "diff", "delta", "ratio", "gap", "drop", "worst"])


def better(metric: str) -> str:
    """`higher` or `lower`; "" where the name does not tell, or tells both: `val/acc` -> higher, `wer` -> lower."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric)
    words = set(re.split(r"[^a-z0-9]+", spaced.lower()))
    if words & _TURNED:
        return ""
    told = {way for word in words for ending, way in _ENDINGS.items() if word.endswith(ending)}
    high, low = bool(words & _HIGH) or "higher" in told, bool(words & _LOW) or "lower" in told
    return "" if high == low else "higher" if high else "lower"
