"""Judges the momentum of batch norm's running statistics."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.reset_statistics import ResetStatistics
from mlcheck.probe.measure.model.slow_statistics import SlowStatistics
from mlcheck.probe.measure.model.wiring import Wiring
from mlcheck.probe.measure.names import listed

_MOSTLY = 0.5
_ALMOST_ALL = 0.9


def check(seen: Wiring, slow: SlowStatistics | None, reset: ResetStatistics | None) -> Verdict:
    tracking = [(name, momentum) for name, momentum, tracks in seen.norms if tracks]
    if not tracking and not seen.unfilled_calls:
        return Verdict(Outcome.SKIP, reason="no batch norm with running statistics ran")
    findings = []
    for extreme, what in (
        (1.0, "evaluation uses the statistics of the last training batch alone"),
        (0.0, "its statistics stay at mean 0 and variance 1 for ever"),
    ):
        names = [name for name, momentum in tracking if momentum == extreme]
        if names:
            findings.append(
                Finding(
                    f"the momentum of {listed(names)} is {extreme:g}: {what}",
                    Location(symbol=names[0].partition(" ")[0]),
                    help="in PyTorch momentum is the weight of the new batch: 0.1 is the default, 0.01 is slow",
                )
            )
    if not seen.last_batch_lasts:
        findings += _last_alone(tracking)
    if reset and reset.names:
        findings.append(_begins_anew(reset))
    if slow and (finding := _never_arrive(slow)):
        findings.append(finding)
    if seen.unfilled:
        told = f"{listed(list(seen.unfilled))} ran in evaluation mode in the training step, with mean 0 and variance 1"
        place = Location(symbol=seen.unfilled[0].partition(" ")[0])
        help_ = "leave it in training mode, or load statistics before freezing it"
        findings.append(Finding(f"{told} of a new module: it does not normalise, and never will", place, help=help_))
    findings += [_without_batch(place) for place in seen.unfilled_calls]
    if findings:
        looked_at = len(tracking) + len(seen.unfilled_calls)
        return Verdict(Outcome.WARN, findings[0].message, findings=tuple(findings), looked_at=looked_at)
    values = ", ".join("cumulative" if m is None else f"{m:g}" for m in dict.fromkeys(m for _, m in tracking))
    return Verdict(
        Outcome.PASS, f"{plural(len(tracking), 'batch norm')} with momentum {values}", looked_at=len(tracking)
    )


def _last_alone(tracking: list[tuple[str, float | None]]) -> Iterator[Finding]:
    near = [(name, momentum) for name, momentum in tracking if momentum and _ALMOST_ALL <= momentum < 1]
    if near:
        momentum = near[0][1]
        names = listed([name for name, other in near if other == momentum])
        told = f"the momentum of {names} is {momentum:g}: {100 * momentum:.0f} % of what evaluation normalises with"
        help_ = f"in PyTorch momentum is the weight of the new batch: what other frameworks call {momentum:g} is "
        yield Finding(
            f"{told} is of the last training batch",
            Location(symbol=near[0][0].partition(" ")[0]),
            help=f"{help_}{1 - momentum:.2g}",
        )


def _begins_anew(reset: ResetStatistics) -> Finding:
    message = (
        f"{listed(list(reset.names))} began each of {plural(reset.steps, 'training step')} with mean 0 and variance 1, "
        "though they learn from every batch: what they learnt is thrown away before the next one"
    )
    place = Location(symbol=reset.names[0].partition(" ")[0])
    return Finding(message, place, help="reset_running_stats() belongs before training, or not into the program at all")


def _never_arrive(slow: SlowStatistics) -> Finding | None:
    """Norms whose statistics are mostly what they were made with when the run ends."""
    names = [name for name, _, left in slow.norms if left > _MOSTLY]
    if not names:
        return None
    _, momentum, left = max(slow.norms, key=lambda norm: norm[2])
    message = (
        f"the momentum of {listed(names)} is {momentum:g}: after the planned {slow.source} its statistics still are "
        f"{100 * left:.0f} % the mean 0 and variance 1 that they began with, and evaluation normalises with them"
    )
    help_ = "in PyTorch momentum is the weight of the new batch: 0.1 is the default; 1 / batches is far too slow"
    place = Location(symbol=names[0].partition(" ")[0])
    return Finding(message, place, help=help_, numbers={"left": left})


def _without_batch(place: Location) -> Finding:
    told = (
        "batch_norm was called in the training step without training=True, with running mean 0 and variance 1, and "
        "the step left them so: it does not normalise, and never will"
    )
    return Finding(
        told,
        place,
        help="pass training=self.training: then it uses the batch's statistics and updates the running ones",
    )
