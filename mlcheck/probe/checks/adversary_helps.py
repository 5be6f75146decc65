"""Judges whether a maker works against the judge of what it makes, or for it."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.adversaries import JUDGE, MAKER, Adversaries, Push

ALIKE = 4.0
_WAYS = {1: "up", -1: "down"}


def check(seen: Adversaries) -> Verdict:
    wanted = {push.made for push in seen.pushes if push.who == JUDGE and push.real == -push.made}
    mine = [push for push in seen.pushes if push.who == MAKER]
    theirs = [push for push in seen.pushes if push.who == JUDGE and push.real]
    if theirs and all(push.real == push.made == theirs[0].made and _as_much(push) for push in theirs):
        return _tells_no_difference(seen, theirs)
    if seen.moved:
        return _trains_both(seen, mine[0])
    if len(wanted) != 1:
        reason = f"which way `{seen.judge}` pushes its answers about made and about real samples was not seen"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    (way,) = wanted
    if not all(push.made == way for push in mine):
        told = f"`{seen.maker}` pushes the answers about what it makes {_WAYS[-way]}, `{seen.judge}` {_WAYS[way]}"
        return Verdict(Outcome.PASS, told, looked_at=len(seen.pushes))
    message = (
        f"`{seen.maker}` works for `{seen.judge}`, not against it: the losses of both push the answers about what "
        f"`{seen.maker}` makes {_WAYS[way]}, and `{seen.judge}` pushes those about real samples {_WAYS[-way]}"
    )
    finding = Finding(message, mine[0].place, help=f"turn the sign of the loss of `{seen.maker}`, or swap its target")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(seen.pushes))


def _trains_both(seen: Adversaries, push: Push) -> Verdict:
    message = (
        f"each step for `{seen.maker}` trains `{seen.judge}` too, which has an optimizer of its own: the loss of "
        f"`{seen.maker}` moves {plural(seen.moved, 'weight')} of `{seen.judge}` towards the answers that it wants"
    )
    help_ = f"give the optimizer of `{seen.maker}` the parameters of `{seen.maker}` alone"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, push.place, help=help_),), looked_at=seen.moved)


def _as_much(push: Push) -> bool:
    """Least squares push answers about both the same way at first, beyond both targets, and one kind much more."""
    return max(push.forces) < ALIKE * min(push.forces)


def _tells_no_difference(seen: Adversaries, pushes: list[Push]) -> Verdict:
    message = (
        f"`{seen.judge}` learns to say the same of real samples and of what `{seen.maker}` makes: its loss pushes the "
        f"answers about both {_WAYS[pushes[0].made]}, in all of {plural(len(pushes), 'step')} asked about"
    )
    help_ = "look at the targets of its two terms: one of them is for real samples, the other for made ones"
    return Verdict(
        Outcome.WARN, message, findings=(Finding(message, pushes[0].place, help=help_),), looked_at=len(seen.pushes)
    )
