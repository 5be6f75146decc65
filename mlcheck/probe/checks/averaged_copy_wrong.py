"""Judges whether a copy that averages the model's weights follows it, whole and apart from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.bootstrapped import Bootstrapped
from mlcheck.probe.measure.model.averaged_copy import AveragedCopies
from mlcheck.probe.measure.model.following import Copy
from mlcheck.probe.measure.model.lost_averages import LostAverages
from mlcheck.probe.measure.model.own_averages import OwnAverages
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.short_run import ShortRun

_FITS = 1e-3
_SWAPPED = 0.05
_HELD = 0.5
_FEW = 3
_WORDS = {"ema", "average", "averaged", "avg", "shadow", "smoothed", "polyak", "swa"}
_EVALUATED = {"ema", "shadow", "polyak", "swa"}
_TARGET = "what values are compared with moves at every step of the optimizer"
_AVERAGE = re.compile(r"ema|average|avg|shadow|smooth|polyak|swa")


def check(
    seen: AveragedCopies,
    run: ShortRun | None,
    valued: Bootstrapped | None,
    lost: LostAverages | None = None,
    own: OwnAverages | None = None,
) -> Verdict:
    findings = _not_copied(seen, bool(valued)) or _of_itself(seen, own)
    if not findings and not seen.copies:
        return Verdict(Outcome.SKIP, reason="there is no second copy of the model's weights")
    copies = tuple(copy for copy in seen.copies if not copy.viewed or _is_average(copy))
    if not findings and not copies:
        return Verdict(Outcome.SKIP, reason="what has the model's form is its own state dict")
    for copy in copies:
        for message, help_ in _faults(copy, seen.steps):
            findings.append(Finding(message, seen.place, help=help_))
    if findings:
        # A loop of the user's own may bring the statistics up to date (update_bn) before it evaluates.
        only_statistics = all("running statistics" in finding.message for finding in findings)
        mild = (only_statistics and not seen.straight) or all(_TARGET in finding.message for finding in findings)
        outcome = Outcome.WARN if mild else Outcome.FAIL
        return Verdict(outcome, findings[0].message, findings=tuple(findings), looked_at=seen.steps)
    if doubtful := next(_doubtful(copies, seen), None):
        return Verdict(Outcome.WARN, doubtful.message, findings=(doubtful,), looked_at=seen.steps)
    moving = [copy for copy in copies if copy.decays]
    if not moving and lost:
        name, place = lost.copy, lost.place
        told = f"`{name}` never moves: a step computes averages of it and the model's weights and keeps none of them"
        help_ = "write them to the copy: copy.lerp_(weight, 1 - decay), copy.copy_(average), or load_state_dict"
        return Verdict(Outcome.WARN, told, findings=(Finding(told, place, help=help_),), looked_at=lost.weights)
    unmoved = [copy for copy in copies if copy not in moving and copy.taught and copy.begins_alike]
    if valued and seen.settled and unmoved:
        told = f"`{unmoved[0].name}` stays as the untrained model was, and nothing in the program brings it up to date"
        return _not_updated(f"{told}: the values of actions are compared with what it guesses", seen)
    for copy in copies:
        if copy not in moving and copy.read and _is_average(copy):
            told = f"`{copy.name}` is used in evaluation and did not change in {plural(seen.steps, 'step')}"
            return _not_updated(told, seen)
        if copy not in moving and copy.read and run and _evaluates_alike(run):
            told = f"`{copy.name}` is used in evaluation and never changes: after {plural(run.steps, 'training step')}"
            return _not_updated(f"{told} ({run.epochs:.2g} epochs) every metric is what it was, bit for bit", seen)
    if not any(copy.decays or copy.begins_alike or copy.read for copy in copies):
        return Verdict(Outcome.SKIP, reason="what has the model's form has had other weights from the start")
    if not moving:
        names = ", ".join(f"`{copy.name}`" for copy in copies)
        reason = (
            f"{names} did not move in {plural(seen.steps, 'step')} and an evaluation: it may be meant to stay as it is"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.steps)
    if unread := _unread(seen):
        return unread
    if copied := [copy.name for copy in moving if not any(copy.decays)]:
        reason = f"`{copied[0]}` was set to the model at each of {plural(seen.steps, 'step')}: it may average later"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.steps)
    told = "; ".join(f"`{copy.name}` keeps {_range(copy.decays)} of itself at a step" for copy in moving)
    return Verdict(Outcome.PASS, f"{told}, with nothing left behind", looked_at=seen.steps)


def _unread(seen: AveragedCopies) -> Verdict | None:
    """Where evaluation is of the model, and what is averaged lost, or said to be what is evaluated."""
    called = [name for name in seen.metrics if _EVALUATED & set(name.lower().split("_"))]
    for name in seen.unread:
        if name in seen.unsaved or called:
            why = "no checkpoint holds it" if name in seen.unsaved else f"`{called[0]}` is the model's own"
            told = f"`{name}` averages the model's weights at every step and nothing reads it: {why}"
            help_ = "evaluate the average, and save it: that is what is kept of the run"
            finding = Finding(told, seen.place, help=help_)
            return Verdict(Outcome.WARN, told, findings=(finding,), looked_at=seen.steps)
    return None


def _doubtful(copies: Iterable[Copy], seen: AveragedCopies) -> Iterator[Finding]:
    """Copies that move as no average does, or that the model follows instead."""
    steps = plural(seen.steps, "step")
    for copy in copies:
        if _is_exchanged(copy):
            told = (
                f"after each optimizer step the model moves {1 - max(copy.left):.3g} of the way to `{copy.name}`, "
                f"which training asks and which stays as it was for {steps}: the two are exchanged"
            )
            yield Finding(told, seen.place, help="write to the copy: copy.lerp_(weight, 1 - decay)")
    for copy in copies:
        if (times := _times_set(copy.decays)) > 1:
            told = (
                f"`{copy.name}` is set to the model again and again, {times} times in {steps}: in between it averages, "
                "and that is thrown away"
            )
            help_ = "copy the weights once, before training, and only average after it"
            yield Finding(told, seen.place, help=help_)


def _is_exchanged(copy: Copy) -> bool:
    """Whether the model follows a copy that stays as the model began, and that training calls besides."""
    drawn = len(copy.left) >= _FEW and max(copy.left) < 1 - _FITS
    return drawn and copy.taught and copy.begins_alike and not copy.decays


def _times_set(decays: list[float]) -> int:
    """How often a step leaves nothing of the copy, after steps that kept most of it."""
    return sum(now == 0 and before > _HELD for before, now in pairwise(decays))


def _is_average(copy: Copy) -> bool:
    return bool(_AVERAGE.search(copy.name.rpartition(".")[2].lower()))


def _not_updated(told: str, seen: AveragedCopies) -> Verdict:
    help_ = "update it in place after every optimizer step: average.lerp_(weight, 1 - decay)"
    finding = Finding(told, seen.place, help=help_)
    return Verdict(Outcome.WARN, told, findings=(finding,), looked_at=seen.steps)


def _evaluates_alike(run: ShortRun) -> bool:
    """Whether an epoch or more of training, after which a copy may be brought up to date, changed no metric at all."""
    return run.epochs >= 1 and bool(run.before) and run.before == run.after


def _not_copied(seen: AveragedCopies, values_actions: bool) -> list[Finding]:
    """Names that hold the model, beside another name for it: for an average, for the target of values, of copy.copy."""
    words = {name: set(name.rpartition(".")[2].lower().split("_")) for name in seen.aliases}
    averages = [name for name in seen.aliases if words[name] & _WORDS or name in seen.shallow]
    targets = [name for name in seen.aliases if values_actions and "target" in words[name] and name not in averages]
    if len(averages) + len(targets) == len(seen.aliases):
        return []
    help_ = "copy with copy.deepcopy(model), or clone every tensor"
    told = [(name, "it averages nothing") for name in averages] + [(name, _TARGET) for name in targets]
    return [Finding(f"`{name}` is the model itself, not a copy: {why}", help=help_) for name, why in told]


def _of_itself(seen: AveragedCopies, own: OwnAverages | None) -> list[Finding]:
    if own is None or len(seen.aliases) < 2:
        return []
    told = (
        f"{listed(list(seen.aliases))} are one model: a step averages {plural(own.weights, 'weight')} of it with "
        "themselves, where one should be a copy"
    )
    return [Finding(told, own.place, help="copy with copy.deepcopy(model), or clone every tensor")]


def _faults(copy: Copy, steps: int) -> Iterator[tuple[str, str]]:
    """What is wrong with a copy, and what to do."""
    if copy.shared:
        told = f"{len(copy.shared)} of {plural(copy.weights, 'weight')} of `{copy.name}` lie in the model's own memory"
        yield f"{told}: it is the model, not a copy", "copy with copy.deepcopy(model), or clone every tensor"
        return
    if len(copy.left) >= _FEW and (max(copy.left) < _HELD or (copy.overwritten and copy.decays)):
        told = f"after each optimizer step the model is drawn back to `{copy.name}`: {_range(copy.left)} of the step is"
        yield f"{told} left, and it hardly trains", "write the average to the copy alone, never back to the model"
    if not copy.decays:
        return
    averages = all(residual < _FITS for residual in copy.residuals)
    if copy.still and averages:
        told = f"{len(copy.still)} of {plural(copy.weights, 'weight')} of `{copy.name}` never move while the model's do"
        yield f"{told}, `{copy.still[0]}` first, in {plural(steps, 'step')}", "average every weight"
    if copy.still_statistics and copy.reads_statistics:
        told = f"the running statistics of `{copy.name}` never move (`{copy.still_statistics[0]}`), its weights do"
        help_ = "copy the model's buffers as well: AveragedModel(use_buffers=True), or update_bn before evaluating"
        yield f"{told}, and evaluation normalises with them", help_
    if copy.read_as_kept and len(copy.parts) >= _FEW and min(abs(part - 1.0) for part in copy.parts) > _FITS:
        told = f"`{copy.name}` is no average: what it keeps of itself at a step and takes of the model add up to"
        yield f"{told} {_range(copy.parts)}, not to 1", "copy = decay * copy + (1 - decay) * model"
    elif averages and max(copy.decays) > 1.0 + _FITS:
        yield (
            f"`{copy.name}` moves away from the model: it keeps {max(copy.decays):.4g} of its distance at a step",
            "the decay lies between 0 and 1: copy = decay * copy + (1 - decay) * model",
        )
    elif averages and len(copy.decays) > 1 and any(copy.decays) and max(copy.decays) < _SWAPPED:
        yield (
            f"`{copy.name}` averages nothing: it keeps {_range(copy.decays)} of itself at a step",
            "decay and 1 - decay seem exchanged: copy = decay * copy + (1 - decay) * model",
        )


def _range(decays: list[float]) -> str:
    low, high = min(decays), max(decays)
    return f"{high:.4g}" if high - low < 1e-4 else f"{low:.4g} to {high:.4g}"
