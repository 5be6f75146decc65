"""Judges whether a metric is what its name says, whatever the size of the batch it was computed on."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation import metric_names as named
from mlcheck.probe.measure.validation.answered import Answered, Answers
from mlcheck.probe.measure.validation.metric_trials import MetricTrial, MetricTrials
from mlcheck.probe.measure.validation.printed_metrics import PrintedMetrics
from mlcheck.probe.measure.validation.printed_text import Printed
from mlcheck.probe.measure.validation.searched import Searched
from mlcheck.probe.measure.validation.whole_split import WholeSplit

CLOSE = 2e-3
APART = 0.006
UNEVEN, LEAST = 0.05, 0.98


def check(
    seen: MetricTrials,
    printed: PrintedMetrics | None,
    answered: Answered | None,
    first: FirstLoss | None,
    run: ShortRun | None,
    searched: Searched | None,
    split: WholeSplit | None,
) -> Verdict:
    if not any(trial.whole for trial in seen.trials):
        return judge_printed(printed)
    names = list(dict.fromkeys(name for trial in seen.trials for name in trial.whole))
    findings = list(split.findings()) if split else []
    compared, by = [], searched.metric if searched else ""
    for name in names:
        trials = [trial for trial in seen.trials if name in trial.whole]
        known = next((kind for kind, pattern in named.NAMES.items() if pattern.match(name.lower())), "")
        shares = known or named.is_share(name)
        grows_not = known or named.is_of_any_size(name)
        fault = _not_finite(name, trials, seen.at_once) or (grows_not and _doubles(name, trials, seen.summed))
        fault = fault or (shares and not seen.at_once and _not_finite_later(name, run))
        fault = fault or (known and _not_as_named(name, known, trials)) or _not_a_share(name, answered)
        fault = fault or _counts_padding(name, answered)
        fault = fault or _sums(name, trials, seen.summed, first, by) or _divided_twice(name, trials, seen.summed, by)
        if fault:
            findings.append(fault)
        elif known and any(known in trial.references for trial in trials):
            compared.append(name)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=tuple(findings), looked_at=len(names))
    told = f"{', '.join(names[:4])} are finite on {plural(len(seen.trials), 'batch')}"
    told += f"; {', '.join(compared)} equal what was recomputed from the model's output" if compared else ""
    return Verdict(Outcome.PASS, told, looked_at=len(names))


def judge_printed(seen: PrintedMetrics | None) -> Verdict:
    """What a script prints must follow its outputs, and be 1 where all are right and 0 where all are wrong."""
    judged = [one for one in seen.printed if one.changes or one.held_out or _beside(one, seen)] if seen else []
    if seen is None or not judged:
        reason = "the evaluation of a batch returns no metric that is one number, and none is seen to be printed"
        return Verdict(Outcome.SKIP, reason=reason)
    messages = [message for one in judged if (message := _ignores(one) or _off(one, seen))]
    messages += [message for one in seen.last_only if one.kind == "accuracy" and (message := _uneven(one, seen))]
    messages += [message for one in seen.lowered if (message := _of_decisions(one))]
    messages += [message for one in judged if (message := _short(one, seen))]
    if messages:
        help_ = "count right answers and samples over the whole split, and divide once"
        findings = tuple(Finding(message, seen.place, help=help_) for message in messages)
        return Verdict(Outcome.WARN, messages[0], findings=findings, looked_at=len(judged))
    told = ", ".join(dict.fromkeys(one.kind for one in judged))
    return Verdict(
        Outcome.PASS,
        f"{told}, as printed, follows the outputs: `{judged[0].line}` where all {seen.samples} are right, "
        f"{judged[0].other.text} where all are wrong",
        looked_at=len(judged),
    )


def _beside(one: Printed, seen: PrintedMetrics) -> bool:
    """Whether it stands, as little named, beside one that follows the outputs; a bare accuracy may be training's."""
    return one.kind != "accuracy" and any(
        other.changes and not other.held_out and other.line == one.line for other in seen.printed
    )


def _ignores(one: Printed) -> str:
    if one.changes:
        return ""
    return (
        f"{one.kind} is printed as {one.one.text} whether every prediction is right or every one is wrong: `{one.line}`"
    )


def _off(one: Printed, seen: PrintedMetrics) -> str:
    if one.kind != "accuracy":
        if max(one.one.shares) > min(one.other.shares):
            return ""
        return (
            f"{one.kind} is printed as {one.one.text} where every prediction is right, and as {one.other.text} where "
            f"every one is wrong: `{one.line}`"
        )
    replaced = f"over {plural(seen.samples, 'sample')} (the model's output was replaced by the labels): `{one.line}`"
    if not one.one.is_one_of(seen.shares, APART):
        return f"accuracy is printed as {one.one.text} where every prediction is right, {replaced}"
    if not one.other.is_one_of((0.0,), APART):
        return f"accuracy is printed as {one.other.text} where every prediction is wrong, {replaced}"
    return ""


def _of_decisions(one: Printed) -> str:
    """The area under the curve knows no threshold: of scores that rank all samples right it is 1, however low."""
    if max(one.one.shares) > LEAST:
        return ""
    return (
        f"auc is printed as {one.one.text} where the scores rank every positive above every negative, all of them "
        f"below the threshold: it is computed from decisions, not from scores: `{one.line}`"
    )


def _short(one: Printed, seen: PrintedMetrics) -> str:
    """Of right predictions alone each of these is 1, where the labels hold both classes of two."""
    if one.kind not in ("f1", "precision", "recall", "auc") or not seen.both_in_all or not one.changes:
        return ""
    if max(one.one.shares) >= LEAST or max(one.one.shares) <= min(one.other.shares):
        return ""
    return f"{one.kind} is printed as {one.one.text} where every prediction is right: `{one.line}`"


def _uneven(one: Printed, seen: PrintedMetrics) -> str:
    """A small last batch that counts as much as the others: told where it can move the metric."""
    share, each = seen.last_share, 1 / seen.batches
    if share is None or abs(each - share) < UNEVEN or not one.one.is_one_of((each,), 0.0):
        return ""
    if one.one.is_one_of((share,), 0.0):
        return ""
    return (
        f"accuracy averages batches of different sizes: with the last batch right alone, {100 * share:.3g} % of the "
        f"samples, it is printed as {one.one.text}: `{one.line}`"
    )


def _not_finite(name: str, trials: list[MetricTrial], at_once: bool) -> Finding | None:
    """Of a program that evaluates a split at once only what no batch has: a small one may have no metric."""
    wrong = [trial for trial in trials if not math.isfinite(trial.whole[name])]
    if not wrong or (at_once and len(wrong) < len(trials)):
        return None
    bad, value = wrong[0], "NaN" if math.isnan(wrong[0].whole[name]) else "infinite"
    return Finding(
        f"{name} is {value} on a validation batch of {bad.samples}: averaged, it makes the whole metric {value}",
        help="count over the whole split and divide once; decide what the metric is where a class does not occur",
    )


def _not_finite_later(name: str, run: ShortRun | None) -> Finding | None:
    """What has a value for a model that guesses may have none for one that leaves a class out."""
    values = [metrics[name] for metrics in run.after if name in metrics] if run else []
    missing = sum(map(math.isnan, values))
    if not run or not missing or not all(map(math.isfinite, run.losses)):
        return None
    return Finding(
        f"after {plural(run.steps, 'training step')} {name} is NaN on {missing} of "
        f"{plural(len(values), 'validation batch')}: averaged, it makes the whole metric NaN",
        help="count over the whole split and divide once; decide what the metric is where a class is not predicted",
    )


def _doubles(name: str, trials: list[MetricTrial], summed: bool, power: float = 1.0) -> Finding | None:
    """A share does not change when every sample is there twice; the root of a sum grows with the root of two."""
    tried = [trial for trial in trials if trial.whole[name] and name in trial.twice]
    if summed or not tried or not all(abs(t.twice[name] / t.whole[name] - 2**power) < CLOSE for t in tried):
        return None
    one, root = tried[0], "" if power == 1 else ", as the root of a sum does"
    return Finding(
        f"{name} depends on the batch size: {one.whole[name]:.4g} on {plural(one.samples, 'sample')}, "
        f"{one.twice[name]:.4g} when each of them is in the batch twice{root}",
        help="divide by the number of samples in this batch, not by a fixed one: the last batch is smaller",
        numbers={"whole": one.whole[name], "twice": one.twice[name]},
    )


def _not_as_named(name: str, known: str, trials: list[MetricTrial]) -> Finding | None:
    judged = [trial for trial in trials if known in trial.references]
    if len(judged) < len(trials) or not judged:
        return None
    right = [trial for trial in judged if _is_one_of(trial.whole[name], list(trial.references[known].values()))]
    if 2 * len(right) >= len(judged):
        return None
    one = next(trial for trial in judged if trial not in right)
    expected = next(iter(one.references[known].values()))
    return Finding(
        f"{name} is {one.whole[name]:.4g} on {plural(one.samples, 'sample')}, where the model's output and the labels "
        f"give {expected:.4g}{one.out_of_order(name, known)}",
        help="look at the axis of argmax, at what is compared with what, and at the threshold (logits: 0)",
        numbers={"reported": one.whole[name], "recomputed": expected},
    )


def _not_a_share(name: str, answered: Answered | None) -> Finding | None:
    """A share of right answers is 1 where all are right, and less where all are wrong, if it goes by them at all."""
    batches = answered.batches if answered else ()
    judged = [one for one in batches if name in one.wrong and any(name in right for right in one.right)]
    judged = [one for one in judged if abs(one.at_best(name) - one.wrong[name]) > APART]
    if not named.is_share(name) or not judged or not all(_is_off(name, one) for one in judged):
        return None
    one = judged[0]
    return Finding(
        f"{name} is {one.at_best(name):.4g} where every prediction is right and {one.wrong[name]:.4g} where every one "
        f"is wrong (the model's output was replaced by the labels of {plural(one.samples, 'sample')})",
        help="count what it should be on five samples by hand, and look at what is divided by what",
        numbers={"right": one.at_best(name), "wrong": one.wrong[name]},
    )


def _is_off(name: str, one: Answers) -> bool:
    """Where a class is missing from the labels, an average over classes may stay below 1; an accuracy is none."""
    best = one.at_best(name)
    plain = one.complete or named.is_plain_accuracy(name)
    return best <= one.wrong[name] or (plain and min(abs(best - 1), abs(best / 100 - 1)) > 1 - LEAST)


def _counts_padding(name: str, answered: Answered | None) -> Finding | None:
    batches = [one for one in answered.batches if name in one.padding_right] if answered else []
    if not batches or not named.is_plain_accuracy(name) or not all(one.counts_padding(name, APART) for one in batches):
        return None
    value, share = batches[0].padding_right[name], 100 * batches[0].share
    return Finding(
        f"{name} counts labels that the loss leaves out, {share:.3g} % of all: with these answered right and every "
        f"other one wrong it is {value:.4g}",
        help="leave padding out of what is counted as right and of what that is divided by",
        numbers={"padding alone": value, "share of padding": share / 100},
    )


def _sums(name: str, trials: list[MetricTrial], summed: bool, first: FirstLoss | None, by: str) -> Finding | None:
    """A mean by its name, or what the search goes by, that grows with the batch where the training loss is a mean."""
    as_in_training = first is not None and first.tiled is not None and abs(first.tiled - 1) < CLOSE
    a_mean = named.MEANS.search(name.lower())
    judged = as_in_training and (a_mean or (by == name and not named.COUNTS.search(name.lower())))
    found = _doubles(name, trials, summed) if judged else None
    return found or (_doubles(name, trials, summed, power=0.5) if judged and a_mean else None)


def _divided_twice(name: str, trials: list[MetricTrial], summed: bool, by: str) -> Finding | None:
    """A mean, or what the search goes by, that is half as large when every sample is there twice."""
    tried = [trial for trial in trials if trial.twice.get(name) and not trial.crossed]
    judged = tried and (named.MEANS.search(name.lower()) or by == name)
    if summed or not judged or not all(abs(t.whole[name] / t.twice[name] - 2) < CLOSE for t in tried):
        return None
    one = tried[0]
    return Finding(
        f"{name} is a mean divided by the batch size once more: {one.whole[name]:.4g} on "
        f"{plural(one.samples, 'sample')}, {one.twice[name]:.4g} when each of them is in the batch twice",
        help="divide once: by the number of samples, or not at all where the loss is a mean already",
        numbers={"whole": one.whole[name], "twice": one.twice[name]},
    )


def _is_one_of(value: float, references: list[float]) -> bool:
    """As a share or in per cent; near enough for a metric that rounds or counts a little differently."""
    return any(abs(value - known) < APART or abs(value / 100 - known) < APART for known in references)
