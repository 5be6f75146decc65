"""Judges whether training and validation inputs were scaled by the same numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.left_raw import LeftRaw, left_raw
from mlcheck.probe.measure.data.passes import Field, Pass, Passes
from mlcheck.probe.measure.data.range_shift import RangeShift, range_shift
from mlcheck.probe.measure.data.raw_targets import raw_targets
from mlcheck.probe.measure.data.recoded import recoded
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves
from mlcheck.probe.measure.validation.compared_as_given import ComparedAsGiven

RATIO = 3.0
AGREE = 0.9
SOME = 1 / 3
MOST = 0.75
FEW_ROWS = 30
FEW_FEATURES = 4
NOTHING = 1e-6
ALIKE = 1.5
SHOWN = 3


def check(passes: Passes, first: FirstLoss | None, compared: ComparedAsGiven | None) -> Verdict:
    if passes.validation is None:
        return Verdict(Outcome.SKIP, reason="there is no validation data")
    if first and compared and (finding := _raw_targets(passes.training, passes.validation, first, compared)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=passes.validation.samples)
    if first and (finding := _recoded(passes.training, passes.validation, first)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=passes.validation.samples)
    told, findings, figures = [], [], []
    for name, trained in passes.training.fields.items():
        tested = passes.validation.fields.get(name)
        if tested is None or not _comparable(trained, tested) or (first and first.inputs and name not in first.inputs):
            continue
        ratios = _ratios(trained, tested)
        if not ratios.numel():
            continue
        middle = float(ratios.median())
        told.append(f"`{trained.place}` has in validation {middle:.3g} times the standard deviation of training")
        if _level_wanders(name, trained, tested, passes):
            continue
        if _apart(ratios) or _unscaled(ratios, _shifts(trained, tested)):
            findings.append(_fault(trained, tested, ratios))
            figures.append(_figure(trained, tested))
        elif raw := left_raw(name, passes.training, passes.validation):
            findings.append(_raw(trained, tested, raw))
            figures.append(_figure(trained, tested))
        elif shift := range_shift(name, trained, tested, passes.training, passes.validation):
            findings.append(_elsewhere(trained, tested, shift))
            figures.append(_figure(trained, tested))
    if findings:
        return Verdict(
            Outcome.WARN, findings[0].message, findings=tuple(findings), figures=tuple(figures), looked_at=len(told)
        )
    if not told:
        return Verdict(Outcome.SKIP, reason="no floating-point input with enough rows is in both splits")
    return Verdict(Outcome.PASS, "; ".join(told[:3]), looked_at=len(told))


def _raw_targets(training: Pass, validation: Pass, first: FirstLoss, compared: ComparedAsGiven) -> Finding | None:
    for name in first.targets:
        raw = raw_targets(name, training, validation) if name in compared.names else None
        if raw:
            return Finding(
                f"the targets `{part_of('batch', name)}` are standardised in training and not in validation, where "
                f"they have mean {raw.mean:.3g} and standard deviation {raw.deviation:.3g}: the evaluation compares "
                "the model's output with them as it is",
                help="standardise validation targets with the training data's numbers, or convert the output back",
                numbers={"mean": raw.mean, "deviation": raw.deviation},
            )
    return None


def _recoded(training: Pass, validation: Pass, first: FirstLoss) -> Finding | None:
    found = recoded(training, validation, first.inputs, first.targets[0]) if len(first.targets) == 1 else None
    if found is None:
        return None
    shown = ", ".join(f"{one} is {other}" for one, other in list(found.exchanged.items())[:SHOWN])
    return Finding(
        f"`{found.place}` has other codes for the same categories in validation than in training ({shown}"
        f"{', ...' if len(found.exchanged) > SHOWN else ''}): as they are they tell nothing about the target, and with "
        f"these exchanged {100 * found.as_exchanged / found.told:.0f} % of what they tell in training",
        help="build the mapping from categories to codes once, on the training data, and use it for all splits; if it "
        "is built so, these categories mean something else in validation",
        numbers={"as given": found.as_given, "exchanged": found.as_exchanged, "in training": found.told},
    )


def _comparable(one: Field, other: Field) -> bool:
    return (
        "float" in one.dtype
        and "float" in other.dtype
        and one.total is not None
        and other.total is not None
        and one.total.shape == other.total.shape
        and min(one.rows, other.rows) >= FEW_ROWS
    )


def _ratios(trained: Field, tested: Field) -> Tensor:
    """Validation's standard deviation over training's, for features that vary in either."""
    mine, theirs = trained.spread, tested.spread
    tiny = 1e-6 * torch.maximum(mine, theirs).max()
    varies = (mine > tiny) | (theirs > tiny)
    return theirs[varies].clamp_min(1e-12) / mine[varies].clamp_min(1e-12)


def _level_wanders(name: str, trained: Field, tested: Field, passes: Passes) -> bool:
    """Windows of a series: each place spreads like the others, and neighbours lie as far apart in both splits.

    Another scale would change that too; a level that wanders, less in a short stretch than in a long one, does not.
    """
    if any(len(one.spread) < FEW_FEATURES or one.spread.max() > ALIKE * one.spread.min() for one in (trained, tested)):
        return False
    splits = [part.kept for part in (passes.training, passes.validation) if part]
    steps = [_step([dict(leaves(batch))[name] for batch in kept]) for kept in splits if kept]
    return len(steps) == 2 and 1 / ALIKE < steps[0] / max(steps[1], NOTHING) < ALIKE


def _step(batches: list[Tensor]) -> float:
    """How far neighbouring places of a row lie apart, as the median of the rows; batches may be of unlike lengths."""
    return float(torch.cat([rows.double().flatten(1).diff(dim=1).std(1) for rows in batches]).median())


def _apart(ratios: Tensor) -> bool:
    """Whether nearly all features spread otherwise: all wider, all narrower, or each at its own scale again."""
    wider, narrower = (ratios > RATIO).double(), (ratios < 1 / RATIO).double()
    if max(float(wider.mean()), float(narrower.mean())) >= AGREE:
        return True
    varies = ratios > NOTHING  # what one split lacks altogether is rare, not scaled
    return len(ratios) >= FEW_FEATURES and float(((wider + narrower) * varies).mean()) >= AGREE


def _shifts(trained: Field, tested: Field) -> Tensor:
    """How far validation's mean lies from training's, in standard deviations of training's, for the same features."""
    mine, theirs = trained.spread, tested.spread
    tiny = 1e-6 * torch.maximum(mine, theirs).max()
    varies = (mine > tiny) | (theirs > tiny)
    return (tested.mean - trained.mean).abs()[varies] / mine[varies].clamp_min(1e-12)


def _unscaled(ratios: Tensor, shifts: Tensor) -> bool:
    """Columns that were never centred nor divided: some had a spread near 1 all along, and lie elsewhere."""
    other = ((ratios > RATIO) | (ratios < 1 / RATIO)) & (ratios > NOTHING)
    moved = (shifts > RATIO) & (ratios > NOTHING)
    return (
        len(ratios) >= FEW_FEATURES
        and float(other.double().mean()) >= SOME
        and float((other | moved).double().mean()) >= MOST
    )


def _fault(trained: Field, tested: Field, ratios: Tensor) -> Finding:
    middle = float(ratios.median())
    low, high = float(ratios.min()), float(ratios.max())
    times = f"{middle:.3g}" if high / low < RATIO**2 else f"{low:.3g} to {high:.3g}"
    return Finding(
        f"`{trained.place}` has {times} times the standard deviation in validation that it has in training, in "
        f"{'its one feature' if len(ratios) == 1 else f'nearly all of {len(ratios)} features'}: training runs from "
        f"{trained.low:.3g} to {trained.high:.3g}, validation from {tested.low:.3g} to {tested.high:.3g}",
        help="scale validation and test data with the numbers found on the training data",
        numbers={"ratio of standard deviations": middle},
    )


def _raw(trained: Field, tested: Field, raw: LeftRaw) -> Finding:
    how = f"with {raw.decimals} decimals at most" if raw.decimals else "as whole numbers"
    return Finding(
        f"`{trained.place}` is standardised in training and not in validation: {raw.standard} columns have mean 0 and "
        f"deviation 1 in training, and in validation {raw.written} of them hold raw values, {how}, "
        f"from {tested.low:.4g} to {tested.high:.4g}",
        help="subtract the training data's mean from validation and test data too, and divide by its deviation",
        numbers={"columns": float(raw.written)},
    )


def _elsewhere(trained: Field, tested: Field, shift: RangeShift) -> Finding:
    return Finding(
        f"`{trained.place}` runs from {trained.low:.3g} to {trained.high:.3g} in training and from {tested.low:.3g} to "
        f"{tested.high:.3g} in validation, and mean and deviation say the same: validation is {shift.factor:.3g} times "
        f"training {shift.offset:+.3g}",
        help="scale validation and test data with the numbers that the training data is scaled with",
        numbers={"factor": shift.factor, "offset": shift.offset},
    )


def _figure(trained: Field, tested: Field) -> Figure:
    rows = [
        [split, f"{f.low:.4g}", f"{f.high:.4g}", f"{float(f.mean.mean()):.4g}", f"{float(f.spread.mean()):.4g}", f.rows]
        for split, f in (("training", trained), ("validation", tested))
    ]
    return Figure(
        "table",
        f"`{trained.place}` in both splits",
        {"columns": ["split", "min", "max", "mean", "std", "rows"], "rows": rows},
    )
