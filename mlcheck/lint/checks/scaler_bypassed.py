"""scaler-bypassed: the loss is scaled and the step is not, or the other way round."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Step
from mlcheck.lint.sites import Call, Sites
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.training.stuck_scales import SCALERS, never_updated

LOOKS_AT = "gradient scaler"
WORDS = ("scale", "Scale")
_NOT_FINITE = pattern(r"finite|isnan|isinf|nan_to_num|found_inf|inf_checks")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*SCALERS))
    scaled = {backward.place.spot for backward in facts.backwards if backward.scaled}
    scalable = {backward.place.spot for backward in facts.backwards if backward.scaled is not False}
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
        if kinds == {"unscaled"} and _steps_past_scaler(facts.sites, steps, scalable):
            yield Finding(
                "The gradients are unscaled, and this steps along them even where the loss scale made them overflow: "
                "only the scaler's own step leaves such a batch out",
                last.place.location,
                help="call `scaler.step(optimizer)`, which knows that they are unscaled, and `scaler.update()`",
            )
        if len(places) == 0 or not _has_fresh(steps):
            continue
        certain = spots <= scaled or (spots <= scalable and all(step.always for step in steps))
        mixed = (
            kinds == {"scaled", "unscaled"} and spots <= scaled
        )  # unscaled under a condition, and stepped under none
        if not last.scaler and (mixed or (kinds == {"scaled"} and certain)):
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
    yield from {step.node: _stuck(step, name, made) for step, name, made in never_updated(facts.sites)}.values()
    yield from _made_anew(facts.sites)
    yield from _made_in_step(facts.sites)
    yield from _updated_before(facts.sites)


def _stuck(step: Call, name: str, made: Location) -> Finding:
    return Finding(
        f"`{name}.update()` is never called: the loss scale never adapts to overflows",
        step.place.location,
        help=f"call `{name}.update()` after `{name}.step(optimizer)`",
        related=(made,),
    )


def _made_anew(sites: Sites) -> Iterator[Finding]:
    """A scaler that is made in the very loop that it steps in: each batch starts at the first scale."""
    for made in sites.calls(*SCALERS):
        for name in made.file.names_given(made.node) if made.loops else ():
            for step in made.file.calls("step"):
                owner = step.owner
                if owner is not None and ast.unparse(owner) == name and step.loops[:1] == made.loops[:1]:
                    yield Finding(
                        "A new gradient scaler for every batch: the loss scale starts at its first value each time, "
                        "and every step that overflows at it is skipped",
                        made.place.location,
                        help="make the scaler once, before the loop",
                        related=(step.place.location,),
                    )


def _made_in_step(sites: Sites) -> Iterator[Finding]:
    """A scaler that is made and steps in a function without a loop, which loops call for each batch."""
    for made in sites.calls(*SCALERS):
        function, names = made.function, made.file.names_given(made.node)
        if function is None or made.loops or len(names) != 1 or conditions(made.context):
            continue
        steps = [call for call in made.file.calls("step") if ast.unparse(call.node.func) == f"{names[0]}.step"]
        own = [call for call in steps if call.function is function]
        if not own or any(call.loops for call in own) or "state_dict" in made.file.text:
            continue
        found = list(callers(sites, function))
        if not found and function.cls is not None and sum(function.name in cls.methods for cls in sites.classes) == 1:
            found = [call for file in sites.mentioning([f".{function.name}("]) for call in file.calls(function.name)]
        around = [{outer.kind for outer in call.context.outwards()} & {"loop", "comprehension"} for call in found]
        if found and all(around):
            yield Finding(
                f"A new gradient scaler for every call of `{function.name}`: the loss scale starts at its first value "
                "each time, whatever overflowed before",
                made.place.location,
                help="make the scaler once, beside the optimizer, and hand it over",
                related=(found[0].place.location,),
            )


def _updated_before(sites: Sites) -> Iterator[Finding]:
    """`scaler.update()` right above `scaler.step(optimizer)`: the step unscales once more, with another scale."""
    for file in sites.mentioning([".unscale_("]):
        for call in file.calls("update"):
            owner, function = ast.unparse(call.node.func).removesuffix(".update"), call.function
            if function is None or "scaler" not in owner.lower() or call.node.args:
                continue
            steps = [step for step in file.calls("step") if ast.unparse(step.node.func) == f"{owner}.step"]
            near = [step for step in steps if step.context is call.context]
            unscaled = [other for other in file.calls("unscale_") if other.context is call.context]
            if near and unscaled and unscaled[0].node.lineno < call.node.lineno < near[0].node.lineno:
                yield Finding(
                    "The scaler is updated before its step: the step takes the gradients for scaled, and scales them "
                    "down once more",
                    call.place.location,
                    help=f"call `{owner}.update()` after `{owner}.step(...)`",
                    related=(near[0].place.location,),
                )


def _steps_past_scaler(sites: Sites, steps: list[Step], scalable: set[tuple[str, int, int]]) -> bool:
    """Whether an optimizer steps by itself along unscaled gradients, and nobody asks whether they are finite."""
    behind = {grads.place.spot for step in steps for grads in step.grads if grads.place is not None}
    certain = _has_fresh(steps) and behind <= scalable and all(step.always and not step.scaler for step in steps)
    call = sites.call_at(steps[-1].place) if certain else None
    around = call.function.text if call is not None and call.function is not None else ""
    return call is not None and _NOT_FINITE.search(around or call.file.text) is None


def _has_fresh(steps: list[Step]) -> bool:
    return all(grads.kind in ("fresh", "stale") for step in steps for grads in step.grads)
