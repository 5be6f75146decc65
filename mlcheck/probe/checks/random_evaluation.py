"""Judges whether evaluating the same batch twice gives the same numbers."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.validation.evaluation import Evaluation
from mlcheck.probe.measure.validation.kept import Kept

_OF_CLASSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}


def check(seen: Evaluation, first: FirstLoss | None, kept: Kept | None) -> Verdict:
    differing = {name: pair for name, pair in seen.metrics.items() if _differ(*pair)}
    where = f"; {seen.first_difference} is the first to differ" if seen.first_difference else ""
    if (seen.dropouts or seen.training) and seen.samples_dropout and (differing or seen.first_difference):
        told = f"the model is asked the same {seen.asked} times, as for Monte Carlo dropout"
        reason = f"dropout is on in evaluation, and {told}{_pair(differing)}: fix its seed if the metric must repeat"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=2)
    if seen.dropouts and (differing or seen.first_difference):
        drop = seen.dropouts[0]
        message = f"{drop.name} drops values in evaluation: {drop.why}{_pair(differing)}"
        help_ = "pass training=self.training, or a probability of 0 where it is False; or use nn.Dropout"
        finding = Finding(message, drop.place, help=help_)
        return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=2)
    if kept and kept.metrics:
        finding = _kept(kept)
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=2)
    if not differing and not seen.first_difference:
        what = plural(len(seen.metrics), "metric") if seen.metrics else plural(seen.compared, "module output")
        return Verdict(Outcome.PASS, f"two evaluations of a batch agree bit for bit ({what})", looked_at=2)
    if seen.training:
        name, place = seen.training[0]
        message = f"two evaluations of a batch differ: {name} is in training mode{_pair(differing)}"
        return Verdict(Outcome.WARN, message, findings=(Finding(message, place),), looked_at=2)
    if (disturbed := _disturbed(seen)) and first and _tells_labels(first):
        message = f"{disturbed} in evaluation too, and two evaluations of a batch differ{_pair(differing)}"
        finding = Finding(message, (*seen.hiding, *seen.jittering)[0], help="do so only where self.training is True")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=2)
    if not seen.repeats and not seen.draws:
        reason = "the program draws its batches itself, others every time: none can be evaluated twice"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=2)
    drawn = ", ".join(f"{name} at {place}" for name, place in seen.draws[:2])
    source = f"it draws {drawn}" if drawn else f"something draws random numbers{where}"
    return Verdict(
        Outcome.INCONCLUSIVE,
        reason=f"two evaluations of a batch differ{_pair(differing)}: {source}. Fix its seed if the metric must repeat",
        looked_at=2,
    )


def _kept(seen: Kept) -> Finding:
    name, (alone, after) = next(iter(seen.metrics.items()))
    return Finding(
        f"{name} counts the samples of the validation before: {alone:.6g} on a batch, {after:.6g} where another "
        f"validation, of {plural(seen.before, 'batch')}, came first, as if the two were one",
        help="forget everything in reset() of the reducer, which is called before each validation",
        numbers={"alone": alone, "after": after},
    )


def _disturbed(seen: Evaluation) -> str:
    if seen.hiding:
        return "the model sets values to 0 at random"
    return "the model adds random numbers to its values" if seen.jittering else ""


def _tells_labels(first: FirstLoss) -> bool:
    """One class or number a sample is what the model is trained to tell: nothing is to be filled in or denoised.

    A number has to be in the batch, and not among what the model is given.
    """
    if not first.losses:
        return bool(first.written) and not first.compared
    single = all(math.prod(loss.target_shape) == first.samples for loss in first.losses)
    given = bool(first.targets) and not {*first.targets} & {*first.inputs}
    return single and (given or all(loss.kind in _OF_CLASSES for loss in first.losses))


def _differ(one: float, other: float) -> bool:
    return one != other and not (one != one and other != other)


def _pair(differing: dict[str, tuple[float, float]]) -> str:
    if not differing:
        return ""
    name, (one, other) = next(iter(differing.items()))
    return f" ({name} {one:.6g}, then {other:.6g})"
