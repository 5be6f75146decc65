"""Judges the scale of regression targets."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.examples import target_field
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.loss.comparisons import Comparisons
from mlcheck.probe.measure.loss.first_loss import FirstLoss

LARGE = 100.0
TIMES = 50.0
FEW = 50
_FAR = 0.1  # of what predicting zero costs: a model that starts nearer has the targets' scale built in
_REGRESSION = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def check(seen: FirstLoss, compared: Comparisons | None, passes: Passes | None, *, largest: float = LARGE) -> Verdict:
    judged = [(loss.kind, loss.low, loss.high, loss.place) for loss in seen.losses if loss.kind in _REGRESSION]
    if not seen.losses and compared:
        judged = [("the loss", one.low, one.high, one.place) for one in compared.differences]
    if not judged:
        reason = "no mse_loss, l1_loss, smooth_l1_loss or huber_loss was computed, nor a difference of output and batch"
        return Verdict(Outcome.SKIP, reason=reason)
    near = {loss.place for loss in seen.losses if loss.value < _FAR * loss.ignorant}
    findings = tuple(
        Finding(
            f"the targets of {kind} run from {low:.4g} to {high:.4g}: a fresh last layer gives about 1, "
            "and loss and gradients grow with the targets' scale",
            place,
            help="standardise the targets with the training data's numbers, or fit their logarithm",
            numbers={"low": low, "high": high},
        )
        for kind, low, high, place in judged
        if max(abs(low), abs(high)) > largest and place not in near
    )
    if not findings and not near and passes and seen.losses:
        findings = tuple(_all_alike(passes, seen))
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(judged))
    told = ", ".join(f"{low:.3g} to {high:.3g}" for _, low, high, _ in judged[:3])
    return Verdict(Outcome.PASS, f"the targets run from {told}", looked_at=len(judged))


def _all_alike(passes: Passes, seen: FirstLoss) -> Iterator[Finding]:
    """Far from zero and close together, as what was standardised once more with the numbers of the first time."""
    target = target_field(passes.training, seen)
    if target is None or len(target.labels) < FEW or {loss.kind for loss in seen.losses} - _REGRESSION:
        return
    middle, spread = float(target.mean), float(target.spread)
    if 0 < spread * TIMES < abs(middle):
        yield Finding(
            f"the targets `{target.place}` are {middle:.4g} give or take {spread:.2g}: the loss is that of what they "
            f"share, {abs(middle) / spread:.3g} times what tells one from another; targets that are standardised "
            "twice look so",
            help="standardise the targets once, with the training data's mean and standard deviation",
            numbers={"mean": middle, "standard deviation": spread},
        )
