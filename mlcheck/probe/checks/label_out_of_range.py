"""Judges whether every label is a class that the model has an output for, and every class has samples."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.labels import Labels, LabelUse, ShareUse
from mlcheck.probe.measure.data.passes import Field, Passes
from mlcheck.probe.measure.loss.blank_targets import BlankTargets
from mlcheck.probe.measure.loss.signed_targets import SignedTargets
from mlcheck.probe.measure.names import part_of

ROUNDING = 1e-2


def check(labels: Labels | None, passes: Passes, blanks: BlankTargets | None, signed: SignedTargets | None) -> Verdict:
    if signed is not None and (signed.knows_no_sign or labels is None):
        return _without_sign(signed)
    if blanks is not None and (blanks.blanks or labels is None):
        return _beside_blanks(blanks)
    if labels is None:
        return Verdict(Outcome.SKIP, reason="no cross_entropy or nll_loss with class labels was computed")
    findings, told = [], []
    for use in labels.uses:
        known = passes.training.fields.get(use.field)
        low, high = _range(use, known)
        if low < 0 or high >= use.classes:
            findings.append(_outside(use, known, low, high))
        told.append(f"labels {low} to {high} for {plural(use.classes, 'output')}")
    findings += [_beyond(use) for use in labels.shares if use.low < -ROUNDING or use.high > 1 + ROUNDING]
    told += [f"{use.kind} gets labels {use.low:g} to {use.high:g}" for use in labels.shares]
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=tuple(findings), looked_at=passes.training.samples)
    absent = [finding for use in labels.uses if (finding := _absent(use, passes))]
    if absent:
        return Verdict(Outcome.WARN, absent[0].message, findings=tuple(absent), looked_at=passes.training.samples)
    return Verdict(Outcome.PASS, "; ".join(dict.fromkeys(told)), looked_at=passes.training.samples)


def _beside_blanks(seen: BlankTargets) -> Verdict:
    if not seen.blanks:
        told = f"none of {seen.targets} targets of ctc_loss is its blank, {seen.blank}"
        return Verdict(Outcome.PASS, told, looked_at=seen.targets)
    message = (
        f"{seen.blanks} of {seen.targets} targets of ctc_loss are {seen.blank}, which is its blank: what stands for no "
        "label can be no label, and is never read"
    )
    help_ = f"give the blank a class of its own: labels from 1, or blank={seen.classes - 1} where that is no label"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=help_),), looked_at=seen.targets)


def _without_sign(seen: SignedTargets) -> Verdict:
    values = ", ".join(f"{value:g}" for value in seen.values[:4])
    if not seen.knows_no_sign:
        return Verdict(Outcome.PASS, f"{seen.kind} gets targets {values}", looked_at=len(seen.values))
    message = (
        f"{seen.kind} gets targets 0 and 1, and knows 1 and -1: the {100 * seen.zeros:.3g} % that are 0 are not told "
        "apart from the others, or count for nothing"
    )
    finding = Finding(message, seen.place, help="map them: 2 * target - 1")
    return Verdict(Outcome.FAIL, message, findings=(finding,), numbers={"zeros": seen.zeros}, looked_at=2)


def _beyond(use: ShareUse) -> Finding:
    help_ = "divide a mask that was read from a picture by 255" if use.high == 255 else "map the labels to 0 and 1"
    return Finding(
        f"{use.kind} gets labels from {use.low:g} to {use.high:g}: they must lie between 0 and 1, or the loss has no "
        "lower bound and the output grows for ever",
        use.place,
        help=help_,
        numbers={"low": use.low, "high": use.high},
    )


def _range(use: LabelUse, known: Field | None) -> tuple[int, int]:
    """Of the whole pass where the labels are a field of the batch, of the first batch else."""
    if known is None or not known.labels:
        return use.low, use.high
    kept = [label for label in known.labels if label != use.ignored]
    return (int(min(kept)), int(max(kept))) if kept else (0, 0)


def _outside(use: LabelUse, known: Field | None, low: int, high: int) -> Finding:
    name = f"`{part_of('batch', use.field)}`" if use.field else "the labels"
    bad = low if low < 0 else high
    where = ""
    if known and known.labels and float(bad) in known.labels:
        place = known.labels.index(float(bad))
        where = f" (first at sample {place} of a pass)"
    one_based = low == 1 and high == use.classes
    return Finding(
        f"{name} holds {bad}{where}, but the model has {use.classes} outputs: labels must be 0 to {use.classes - 1}",
        use.place,
        help="the labels begin at 1: subtract 1" if one_based else "map labels to 0 ... C-1, or give the model outputs",
        numbers={"label": float(bad), "outputs": float(use.classes)},
    )


def _absent(use: LabelUse, passes: Passes) -> Finding | None:
    """Classes that occur in validation and never in training."""
    known = passes.training.fields.get(use.field)
    tested = passes.validation.fields.get(use.field) if passes.validation else None
    if not use.one_a_sample or known is None or tested is None or not known.labels or not passes.training.whole:
        return None
    unseen = sorted({int(label) for label in tested.labels} - {int(label) for label in known.labels} - {use.ignored})
    if not unseen:
        return None
    return Finding(
        f"class {', '.join(map(str, unseen[:5]))} of `{known.place}` occurs in validation and never in a pass over "
        "the training data",
        help="split so that every class is in both (stratified)",
    )
