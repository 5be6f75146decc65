"""Judges whether padding changes what a model says about a sample, and whether it is counted in the loss."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.padding import Padding

TOLD = 0.01
UNTOLD = 0.1
COUNTED = 0.1


def check(seen: Padding) -> Verdict:
    numbers = {"change": seen.change, "padding in the loss": seen.counted}
    told = (
        f"cut to its own length of {seen.length}, sample {seen.row} gets an output that is {seen.change:.2g} standard "
        f"deviations from the one in a batch padded to {seen.places}"
    )
    findings = []
    if seen.change > (TOLD if seen.told_by else UNTOLD):
        why = (
            f"although `{seen.told_by}` tells the model where it ends"
            if seen.told_by
            else "and nothing tells the model where it ends"
        )
        findings.append(
            Finding(
                f"the output depends on the padding: {told}, {why}",
                help="mask the attention, pack the sequence (pack_padded_sequence), take the mean over real places "
                "only, and read a recurrent net's last real state",
                numbers=numbers,
            )
        )
    if seen.counted > COUNTED:
        findings.append(
            Finding(
                f"{100 * seen.counted:.3g} % of the loss's targets are padding and are averaged in: the model is "
                "rewarded for predicting padding",
                seen.loss_place,
                help="give the loss ignore_index, or take the mean over real places only",
                numbers=numbers,
            )
        )
    if not findings and seen.undecided:
        return Verdict(Outcome.INCONCLUSIVE, reason=seen.undecided)
    if not findings:
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=1)
    exact = seen.told_by and seen.change > TOLD
    outcome = Outcome.FAIL if exact else Outcome.WARN
    return Verdict(outcome, findings[0].message, findings=tuple(findings), numbers=numbers, looked_at=1)
