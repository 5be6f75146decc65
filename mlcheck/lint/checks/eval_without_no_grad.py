"""eval-without-no-grad: an evaluation builds a graph for every batch, and nobody asks for gradients."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import evaluates

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    for idle in facts.idle:
        name = idle.name
        yield Finding(
            f"`{name}()` is called and not entered: it changes nothing",
            idle.place.location,
            help=f"use it as `with {name}():` around the evaluation",
        )
    spoken = {idle.place[0::2] for idle in facts.idle}
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    for forward in facts.forwards:
        if forward.place.spot in trained or forward.place[0::2] in spoken or forward.frozen:
            continue
        if forward.grad.kind == "on" and {mode.kind for mode in forward.modes} == {"eval"} and evaluates(forward):
            yield Finding(
                f"`{forward.name}` is evaluated with gradients recorded: every batch builds a graph for nothing",
                forward.place.location,
                help="run the evaluation under `torch.no_grad()` or `torch.inference_mode()`",
                related=tuple(mode.place.location for mode in forward.modes if mode.place),
            )
