"""Judges whether two views of a sample that a model is given are two."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.twin_views import TwinViews

FEW = 8


def check(seen: TwinViews) -> Verdict:
    if not seen.equal:
        told = f"{plural(seen.pairs, 'pair')} of tensors that go through a model side by side differ"
        return Verdict(Outcome.PASS, told, looked_at=seen.samples)
    one, other = seen.equal[0]
    told = (
        f"`{one}` and `{other}` are equal in every number of {plural(seen.samples, 'sample')}, and both go "
        "through the model"
    )
    if seen.dropout or seen.samples < FEW:
        why = "dropout makes them two, as SimCSE does on purpose" if seen.dropout else "these are few samples"
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{told}: {why}", looked_at=seen.samples)
    message = f"{told}: there is nothing to tell apart or to pull together"
    finding = Finding(message, seen.place, help="draw the augmentation once for each view, not once for both")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.samples)
