"""Judges whether evaluating the same batch twice gives the same numbers."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.evaluation import Evaluation


def check(seen: Evaluation) -> Verdict:
    differing = {name: pair for name, pair in seen.metrics.items() if _differ(*pair)}
    where = f"; {seen.first_difference} is the first to differ" if seen.first_difference else ""
    if seen.dropouts and (differing or seen.first_difference):
        drop = seen.dropouts[0]
        message = f"{drop.name} drops values in evaluation: {drop.why}{_pair(differing)}"
        help_ = "pass training=self.training, or a probability of 0 where it is False; or use nn.Dropout"
        finding = Finding(message, drop.place, help=help_)
        return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=2)
    if not differing and not seen.first_difference:
        what = plural(len(seen.metrics), "metric") if seen.metrics else plural(seen.compared, "module output")
        return Verdict(Outcome.PASS, f"two evaluations of a batch agree bit for bit ({what})", looked_at=2)
    if seen.training:
        name, place = seen.training[0]
        message = f"two evaluations of a batch differ: {name} is in training mode{_pair(differing)}"
        return Verdict(Outcome.WARN, message, findings=(Finding(message, place),), looked_at=2)
    if not seen.repeats and not seen.draws:
        reason = "the program draws its batches itself, in the order of its data: none can be evaluated twice"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=2)
    drawn = ", ".join(f"{name} at {place}" for name, place in seen.draws[:2])
    source = f"it draws {drawn}" if drawn else f"something draws random numbers{where}"
    return Verdict(
        Outcome.INCONCLUSIVE,
        reason=f"two evaluations of a batch differ{_pair(differing)}: {source}. Fix its seed if the metric must repeat",
        looked_at=2,
    )


def _differ(one: float, other: float) -> bool:
    return one != other and not (one != one and other != other)


def _pair(differing: dict[str, tuple[float, float]]) -> str:
    if not differing:
        return ""
    name, (one, other) = next(iter(differing.items()))
    return f" ({name} {one:.6g}, then {other:.6g})"
