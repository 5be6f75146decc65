"""Judges whether gradients are clipped while they are still to be applied."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.clip_places import FEW, ClipPlaces


def check(seen: ClipPlaces) -> Verdict:
    calls = sum(clips.useful + clips.spent + clips.empty for clips in seen.places.values())
    if added := {place: clips for place, clips in seen.places.items() if clips.added >= FEW}:
        findings = tuple(
            Finding(
                f"gradients are clipped before more is added to them, for each of {clips.added} updates: each batch "
                "shortens what came before it, and the last ones count for more than the first",
                place,
                help="clip once, when all batches of an update have been added up",
                numbers={"updates": float(clips.added)},
            )
            for place, clips in added.items()
        )
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=calls)
    if any(clips.useful for clips in seen.places.values()):
        return Verdict(
            Outcome.PASS, f"gradients are clipped before a step, in {plural(calls, 'call')}", looked_at=calls
        )
    if seen.updates < FEW or calls < FEW:
        return Verdict(Outcome.INCONCLUSIVE, reason=f"only {plural(seen.updates, 'update')} in {plural(calls, 'call')}")
    findings = tuple(
        Finding(
            "gradients are clipped after the step that applied them: nothing is limited"
            if clips.spent
            else "gradients are clipped where there are none: nothing is limited",
            place,
            help="clip between `backward()` and `step()`",
            numbers={"calls": float(clips.spent + clips.empty)},
        )
        for place, clips in seen.places.items()
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=calls)
