"""Judges metrics of the untrained model: perfect before training, or outside what they can be."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.short_run import ShortRun

_SHARES = re.compile(r"(^|[_\W])(acc|accuracy|top1|top5|precision|recall|f1|auc|auroc|iou|miou|dice)\d*($|[_\W])")


def check(run: ShortRun) -> Verdict:
    names = [name for name in (run.before[0] if run.before else {}) if _SHARES.search(name.lower())]
    if not names:
        return Verdict(Outcome.SKIP, reason="no validation metric that is a share (accuracy, recall, F1, ...) was seen")
    findings = []
    for name in names:
        values = [metrics[name] for metrics in (*run.before, *run.after) if name in metrics]
        before = [metrics[name] for metrics in run.before if name in metrics]
        says_yes = "recall" in name.lower() and any(not _is_perfect(metrics, names) for metrics in run.before)
        if not says_yes and (finding := _fault(name, values, before, run)):
            findings.append(finding)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=tuple(findings), looked_at=len(names))
    told = ", ".join(f"{name} {run.before[0][name]:.3g}" for name in names[:3])
    return Verdict(Outcome.PASS, f"before training: {told}", looked_at=len(names))


def _is_perfect(metrics: Mapping[str, float], names: list[str]) -> bool:
    """Whether all shares are 1: one that says yes to everything has a recall of 1 alone."""
    return all(metrics.get(name, 1.0) in (1.0, 100.0) for name in names)


def _fault(name: str, values: list[float], before: list[float], run: ShortRun) -> Finding | None:
    bad = next((value for value in values if value < 0 or value > 100), None)
    if bad is not None:
        return Finding(f"{name} is {bad:.4g}: a share lies between 0 and 1, or 0 and 100 %")
    if all(value in (1.0, 100.0) for value in before) and (not run.after or len(set(values)) == 1):
        also = " and after training" if run.after else ""
        return Finding(
            f"{name} is exactly {before[0]:g} for the untrained model{also}: it compares something with itself, or "
            "the task needs no learning",
            help="check what the metric compares: predictions with targets",
        )
    return None
