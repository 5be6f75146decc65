"""clip-before-unscale: gradients are clipped while they are multiplied by the loss scale."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "gradient clipping"
WORDS = ("clip_grad",)


def check(facts: Facts) -> Iterator[Finding]:
    for clip in facts.clips:
        if {state.kind for state in clip.states} == {"scaled"}:
            name = clip.name.rpartition(".")[2]
            yield Finding(
                f"`{name}` cuts gradients that are still multiplied by the loss scale",
                clip.place.location,
                help="call `scaler.unscale_(optimizer)` between the backward and the clipping",
                related=tuple(state.place.location for state in clip.states if state.place),
            )
