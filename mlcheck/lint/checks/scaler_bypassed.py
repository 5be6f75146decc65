"""scaler-bypassed: the loss is scaled and the step is not, or the other way round."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Step

LOOKS_AT = "gradient scaler"
_SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*_SCALERS))
    scaled = {backward.place.spot for backward in facts.backwards if backward.scaled}
    plain = {backward.place.spot for backward in facts.backwards} - scaled
    scales = bool(scaled) or not any(True for _ in facts.sites.mentioning([".scale(", "enabled=False"], tests=True))
    walks: dict[tuple[str, int, int], list[Step]] = {}
    for step in facts.steps:
        walks.setdefault(step.place.spot, []).append(step)
    for steps in walks.values():
        last = steps[-1]
        states = {(state.kind, state.place) for step in steps for state in step.scaling}
        places = {place for _, place in states if place is not None}
        kinds = {kind for kind, _ in states}
        spots = {place.spot for place in places}
        if len(places) == 0 or not _has_fresh(steps):
            continue
        if not last.scaler and kinds == {"scaled"} and spots <= scaled:
            yield Finding(
                "This steps along gradients that are still multiplied by the loss scale",
                last.place.location,
                help="call `scaler.step(optimizer)` and `scaler.update()`",
                related=tuple(sorted(place.location for place in places)),
            )
        elif last.scaler and kinds == {"plain"} and spots <= plain and scales:
            yield Finding(
                "This loss is not scaled, and the scaler divides its gradients by the loss scale all the same",
                min(place.location for place in places),
                help="call `scaler.scale(loss).backward()`",
                related=(last.place.location,),
            )


def _has_fresh(steps: list[Step]) -> bool:
    return all(grads.kind in ("fresh", "stale") for step in steps for grads in step.grads)
