"""Judges whether the units of a layer begin different from one another."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.parameters import Parameters, WeightStory
from mlcheck.probe.measure.names import listed

FEW = 4


def check(seen: Parameters) -> Verdict:
    judged = [weight for weight in seen.weights if weight.trained and weight.ran and weight.kind != "Embedding"]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no trained weight of two dimensions or more was used")
    stuck = [w for w in judged if w.twins >= 2 and w.twins_after >= w.twins and not (w.changed and w.constant == 0)]
    stuck = [w for w in stuck if w.twins == w.rows]
    if stuck and seen.updates < FEW:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"{stuck[0].name} has equal units, and only {seen.updates} updates were made"
        )
    constant = [w for w in judged if w.constant and w.constant_after is None and w not in stuck]
    findings = (*_stuck(stuck, seen.updates), *_constant(constant))
    if findings:
        outcome = Outcome.FAIL if stuck else Outcome.WARN
        return Verdict(outcome, findings[0].message, findings=findings, looked_at=len(judged))
    zero = [w.name for w in judged if w.constant == 0]
    note = f"; {listed(zero)} began at zero and moved apart" if zero else ""
    return Verdict(
        Outcome.PASS,
        f"{plural(len(judged), 'weight')} whose units differ after {plural(seen.updates, 'update')}{note}",
        looked_at=len(judged),
    )


def _stuck(stories: list[WeightStory], updates: int) -> list[Finding]:
    if not stories:
        return []
    names = listed([story.name for story in stories])
    what = "are all zero" if all(story.constant == 0 for story in stories) else "have units that are all equal"
    return [
        Finding(
            f"{names} {what} at the start and still are after {plural(updates, 'update')}: equal units get "
            "equal gradients and "
            "learn the same, or nothing",
            Location(symbol=stories[0].name.removesuffix(".weight")),
            help="initialise them at random: nn.init.kaiming_normal_ before ReLU, xavier_uniform_ otherwise",
            numbers={"weights": float(len(stories))},
        )
    ]


def _constant(stories: list[WeightStory]) -> list[Finding]:
    return [
        Finding(
            f"every number of `{story.name}` is {story.constant:.4g} at the start: its {story.rows} units begin as "
            "copies of one another and part only through the layers behind them",
            Location(symbol=story.name.removesuffix(".weight")),
            help="initialise it at random",
        )
        for story in stories
    ]
