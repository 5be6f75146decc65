"""Judges whether the units of a layer begin different from one another."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.parameters import Parameters, WeightStory
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.training_steps import TrainingSteps

FEW = 4


def check(seen: Parameters, steps: TrainingSteps | None) -> Verdict:
    if steps and (tables := _dead_tables(seen, steps)):
        return Verdict(Outcome.FAIL, tables.message, findings=(tables,), looked_at=len(seen.weights))
    used = [weight for weight in seen.weights if weight.trained and weight.ran]
    judged = [weight for weight in used if weight.kind != "Embedding" or weight.twins]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no trained weight of two dimensions or more was used")
    stuck = [w for w in judged if w.twins >= 2 and w.twins_after >= w.twins and not (w.changed and w.constant == 0)]
    stuck = [w for w in stuck if w.twins == w.rows and (w.changed or w.kind != "Embedding")]
    if stuck and seen.updates < FEW:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"{stuck[0].name} has equal units, and only {seen.updates} updates were made"
        )
    constant = [
        w for w in judged if w.constant and w.constant_after is None and w not in stuck and w.kind != "Embedding"
    ]
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


def _dead_tables(seen: Parameters, steps: TrainingSteps) -> Finding | None:
    """Tables that begin at zero beside another weight of zeros, and whose gradients arrive and are all zero.

    One table may begin there: what it is multiplied with moves it. Where both are zero, neither is ever moved.
    """
    untouched = {s.name for s in steps.parameters if s.optimizers and s.trace.arrivals and not s.trace.nonzero}
    dead = [w for w in seen.weights if w.constant == 0 and not w.changed and w.name in untouched]
    if seen.updates < FEW or len(dead) < 2 or all(weight.kind != "Embedding" for weight in dead):
        return None
    told = f"{listed([w.name for w in dead])} are all zero at the start and still are after"
    return Finding(
        f"{told} {plural(seen.updates, 'update')}: what one is multiplied with is zero as well, every gradient is 0",
        Location(symbol=dead[0].name.removesuffix(".weight")),
        help="initialise all of them but one at random: nn.init.normal_(table.weight, std=0.1)",
        numbers={"weights": float(len(dead))},
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
