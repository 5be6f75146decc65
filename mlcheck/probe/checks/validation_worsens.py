"""Judges the validation losses before and after a short training: they must not rise while training falls."""

from __future__ import annotations

import math
import re
from statistics import fmean, pstdev

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.metric_names import best, is_share_of_pairs, tells_what_is_amiss
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.bootstrapped import Bootstrapped
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.model.averaged_copy import AveragedCopies
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.evaluation import Evaluation
from mlcheck.probe.measure.validation.memorised_metric import MemorisedMetric
from mlcheck.probe.measure.validation.searched import Searched

LOSSES = re.compile(r"(^|[_\W])(loss|nll|mse|mae|rmse|perplexity|ppl|error|crossentropy|cross_entropy|bce|ce)($|[_\W])")
SHARES = re.compile(r"(^|[_\W])(acc|accuracy|top1|precision|recall|f1|iou|miou|jaccard|dice|auc|ap|map)($|[_\W])")
FEW = 20
MARGIN = 0.5
FALL = 0.25
GONE, HALF = 0.1, 0.5
FEW_BATCHES = 3
CLOSE = 0.05
ANTI, FELL = 0.42, 0.08
BY_HEART = 10
GROWN = 3.0
LONG, PART, STILL = 60, 0.2, 0.01
ALIKE = 0.2  # both losses go the same way, from the first step on: a queue of keys fills, a target begins to move


def check(
    run: ShortRun,
    searched: Searched | None,
    evaluation: Evaluation | None,
    learnt: MemorisedMetric | None,
    compared: FirstLoss | None = None,
    copies: AveragedCopies | None = None,
    guessed: Bootstrapped | None = None,
) -> Verdict:
    if searched and not searched.smallest and (finding := _falls(searched.metric, run)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=run.steps)
    # What is learnt of a few transitions by heart are its own guesses of values: no better policy need follow.
    if searched and not searched.smallest and learnt and not guessed and (finding := _unlearnt(learnt)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=learnt.samples)
    if searched and searched.smallest and (finding := _grows(searched.metric, run)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=run.steps)
    if finding := _turned_round(run):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=run.steps)
    names = [name for name in (run.before[0] if run.before else {}) if LOSSES.search(name.lower())]
    if not names or not run.after or len(run.losses) < FEW:
        return Verdict(Outcome.SKIP, reason="no validation loss was computed before and after a short training")
    if finding := _no_number(names, run, evaluation.first_nan if evaluation else ""):
        outcome = Outcome.FAIL if finding.location.symbol else Outcome.WARN
        return Verdict(outcome, finding.message, findings=(finding,), looked_at=run.steps)
    first, last = _ends(run.losses)
    findings = []
    told = []
    for name in names:
        before = [metrics[name] for metrics in run.before if name in metrics]
        after = [metrics[name] for metrics in run.after if name in metrics]
        if not before or not all(map(math.isfinite, (*before, *after))):
            continue
        start, end = sum(before) / len(before), sum(after) / len(after)
        told.append(f"{name} {start:.4g} to {end:.4g}")
        worse = sum(b < a for b, a in zip(before, after)) == len(before)
        alike = math.isclose(run.losses[0], start, rel_tol=ALIKE) and math.isclose(last, end, rel_tol=ALIKE)
        if worse and end - start > MARGIN * max(abs(start), 0.1) and last < first and not alike:
            why = _why(name, start, run)
            findings.append(_fault(name, start, end, first, last, run.steps, why))
    if not told:
        return Verdict(Outcome.INCONCLUSIVE, reason="the validation losses are not finite")
    if findings and (case := _overfitting(names, run)):
        reason = f"{told[0]} over {plural(run.steps, 'step')}, {case}: that may be overfitting"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=run.steps)
    if not findings and compared and len(compared.losses) == 1 and not (copies and copies.copies):
        findings = [finding for name in names if (finding := _stays(name, run))]
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=tuple(findings), looked_at=run.steps)
    return Verdict(Outcome.PASS, f"over {plural(run.steps, 'step')}: {', '.join(told[:3])}", looked_at=run.steps)


def _overfitting(names: list[str], run: ShortRun) -> str:
    """Why training samples may be known by heart by the end, and others told ever more surely wrong; or nothing."""
    if _is_one_batch(run):
        return "of batches that are those of training (one graph, say, whose nodes are split)"
    seen = [ends for name in names if (ends := _on_training(name, run))]
    if run.epochs >= BY_HEART and seen and all(after < before for before, after in seen):
        return f"which see each training sample {run.epochs:.0f} times"
    return ""


def _is_one_batch(run: ShortRun) -> bool:
    """Whether all batches, of training too, are evaluated to the very same numbers, before and after."""
    both = [*run.before, *run.on_training[0]], [*run.after, *run.on_training[1]]
    return bool(run.on_training[0]) and all(metrics == seen[0] for seen in both for metrics in seen)


def _no_number(names: list[str], run: ShortRun, module: str) -> Finding | None:
    """A loss that is NaN in evaluation alone."""
    if not all(map(math.isfinite, run.losses)):
        return None
    for name in names:
        seen = [metrics[name] for metrics in (*run.before, *run.after) if name in metrics]
        if bad := sum(map(math.isnan, seen)):
            whence = f": in evaluation `{module}` is the first to give NaN" if module else ""
            message = f"{name} is NaN in {bad} of {plural(len(seen), 'evaluation')}, while the training loss is finite"
            help_ = (
                "look for a division or a mean that only evaluation makes: a mask over all positions, a mean of nothing"
            )
            return Finding(message + whence, Location(symbol=module.partition(" ")[0]), help=help_)
    return None


def _fault(name: str, start: float, end: float, first: float, last: float, steps: int, why: str) -> Finding:
    return Finding(
        f"{name} rises from {start:.4g} to {end:.4g} in {steps} steps while the training loss falls from "
        f"{first:.4g} to {last:.4g}: {why}",
        help="compare the two formulas (a sign, a mode, a preprocessing step that only one of them has)",
        numbers={"before": start, "after": end},
    )


def _stays(name: str, run: ShortRun) -> Finding | None:
    """An error that neither validation nor the very data of training sees fall, where the one loss does by far."""
    if (ends := _on_training(name, run)) is None or len(run.losses) < LONG or run.backwards > run.steps:
        return None
    pairs = [(b[name], a[name]) for b, a in zip(run.before, run.after) if name in b and name in a]
    if tells_what_is_amiss(name) and max(ends) <= 1:
        return None  # a share of wrong answers: of a rare class all are denied, before training and after
    first, last = _ends(run.losses)
    if not 0 < last < PART * first or not all(b > 0 and abs(a - b) < STILL * b for b, a in (*pairs, ends)):
        return None
    return Finding(
        f"{name} stays at {ends[0]:.4g}, give or take {100 * STILL:g} %, on training batches too, while the training "
        f"loss falls from {first:.4g} to {last:.4g} in {run.steps} steps: it compares other things than the loss does",
        help="compare the two formulas: the units of predictions and targets, the head, the model that is called",
        numbers={"before": ends[0], "after": ends[1]},
    )


def _why(name: str, start: float, run: ShortRun) -> str:
    """Whether the formula is to blame or the data: the same evaluation of training batches tells."""
    if abs(run.losses[0] + start) < CLOSE * abs(start):
        return "before training one is the negative of the other: a sign is wrong"
    if (ends := _on_training(name, run)) is None:
        return "the two do not measure the same"
    before, after = ends
    told = f"on training batches {name} goes from {before:.4g} to {after:.4g}"
    if after - before > MARGIN * max(abs(before), 0.1):
        return f"{told}, too: the fault is in how it is computed (a sign, swapped terms, a mode), not in the data"
    if after < before:
        return f"{told}, so the fault is in the data: validation inputs or targets are prepared in another way"
    return f"the two do not measure the same ({told})"


def _on_training(name: str, run: ShortRun) -> tuple[float, float] | None:
    """What the metric is for training batches, before the short run and after it."""
    pairs = [(b[name], a[name]) for b, a in zip(*run.on_training) if name in b and name in a]
    if not pairs or not all(map(math.isfinite, (number for pair in pairs for number in pair))):
        return None
    before, after = (sum(values) / len(pairs) for values in zip(*pairs))
    return before, after


def _falls(metric: str, run: ShortRun) -> Finding | None:
    """The metric that the search keeps the largest of, where training more than halves it on every batch."""
    pairs = [(b[metric], a[metric]) for b, a in zip(run.before, run.after) if metric in b and metric in a]
    if LOSSES.search(metric.lower()) or not pairs or len(run.losses) < FEW or run.backwards > run.steps:
        return None
    first, last = _ends(run.losses)
    start, end = (sum(values) / len(pairs) for values in zip(*pairs))
    fallen = end <= start / 2 and (start - end >= FALL or (not SHARES.search(metric.lower()) and _is_gone(pairs)))
    if last >= first or not fallen or any(a >= b for b, a in pairs):
        return None
    return Finding(
        f"{metric} falls from {start:.4g} to {end:.4g} in {run.steps} steps while the training loss falls from "
        f"{first:.4g} to {last:.4g}, and the search keeps the largest: a sign is wrong",
        help="look at the sign of the loss and at the order of its arguments, then at the metric",
        numbers={"before": start, "after": end},
    )


def _turned_round(run: ShortRun) -> Finding | None:
    """A share of pairs in the right order that training brings far below a half, where no knowledge would leave it."""
    if len(run.losses) < FEW or run.backwards > run.steps or not run.after:
        return None
    first, last = _ends(run.losses)
    for name in filter(is_share_of_pairs, run.after[0]):
        before, after = (*run.before, *run.on_training[0]), (*run.after, *run.on_training[1])
        pairs = [(b[name], a[name]) for b, a in zip(before, after) if name in b and name in a]
        trained, fell = _on_training(name, run), [b - a for b, a in pairs]
        if not trained or last >= first or len(pairs) < FEW_BATCHES or min(fell) <= 0 or fmean(fell) < FELL:
            continue
        if max(fmean(a for _, a in pairs), trained[1]) < ANTI:
            return Finding(
                f"{name} falls from {trained[0]:.3g} to {trained[1]:.3g} on training batches, where pairs in no order "
                f"have 0.5, while the training loss falls from {first:.4g} to {last:.4g}: training orders them the "
                "wrong way round",
                help="look at the sign of the loss, then at what a high score means in the metric",
                numbers={"before": trained[0], "after": trained[1]},
            )
    return None


def _is_gone(pairs: list[tuple[float, float]]) -> bool:
    """Whether what was much the same on every batch is next to nothing on each.

    Not where it is nothing at all: of a rare class a model first learns to say no.
    """
    before = [one for one, _ in pairs]
    if len(pairs) < FEW_BATCHES or min(before) <= 0 or pstdev(before) > HALF * fmean(before):
        return False
    return all(after != 0 and after < GONE * one for one, after in pairs)


def _unlearnt(seen: MemorisedMetric) -> Finding | None:
    """A share that the search keeps the largest of, on the very samples whose loss training brought down."""
    if LOSSES.search(seen.metric.lower()) or not 0 <= seen.after <= seen.before <= 1:
        return None
    if seen.before - seen.after < FALL or seen.after > seen.before / 2:
        return None
    return Finding(
        f"{seen.metric} falls from {seen.before:.4g} to {seen.after:.4g} on the {seen.samples} training samples whose "
        f"loss training brings from {seen.first:.4g} to {seen.last:.4g}, and the search keeps the largest: a sign is "
        "wrong, or two arguments are exchanged",
        help="look at the sign of the loss and at the order of its arguments, then at the metric",
        numbers={"before": seen.before, "after": seen.after},
    )


def _grows(metric: str, run: ShortRun) -> Finding | None:
    """The metric that the search keeps the smallest of, where training makes it many times as large."""
    pairs = [(b[metric], a[metric]) for b, a in zip(run.before, run.after) if metric in b and metric in a]
    if LOSSES.search(metric.lower()) or best(metric) == "largest" or not pairs or len(run.losses) < FEW:
        return None
    first, last = _ends(run.losses)
    start, end = (sum(values) / len(pairs) for values in zip(*pairs))
    if run.backwards > run.steps or not last < first or start <= 0 or not end > GROWN * start or end <= 1:
        return None
    trained = _on_training(metric, run)
    if any(a <= b for b, a in pairs) or trained is None or not trained[1] > GROWN * trained[0] > 0:
        return None
    return _fault(metric, start, end, first, last, run.steps, _why(metric, start, run))


def _ends(losses: list[float]) -> tuple[float, float]:
    tenth = max(1, len(losses) // 10)
    return sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth
