"""Judges whether a maker works against the judge of what it makes, or for it."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.adversaries import JUDGE, MAKER, Adversaries

_WAYS = {1: "up", -1: "down"}


def check(seen: Adversaries) -> Verdict:
    wanted = {push.made for push in seen.pushes if push.who == JUDGE and push.real == -push.made}
    mine = [push for push in seen.pushes if push.who == MAKER]
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
