"""Judges whether a model stays as it was when it was wrapped."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import RankRun, location
from mlcheck.probe.measure.ranks.weights import Wrapped


def check(run: RankRun) -> Verdict:
    wrapped = {one.model: one for one in run.ranks[0].of(Wrapped)}
    if not wrapped:
        raise NotMeasured("no model is wrapped in DistributedDataParallel")
    if not run.updates:
        raise inconclusive("no step was taken on all ranks")
    changed = {model: told for together in run.steps for model, told in together[0].changed.items()}
    if not changed:
        return Verdict(
            Outcome.PASS, "the wrapped models keep the parameters they were wrapped with", looked_at=run.updates
        )
    findings = tuple(
        Finding(
            f"{told}: its gradients are no longer averaged",
            location(wrapped[model].place, run.place),
            help="cast, move and rebuild the model first, wrap it last",
        )
        for model, told in changed.items()
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=run.updates)
