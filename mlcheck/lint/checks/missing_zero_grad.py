"""missing-zero-grad: a step takes gradients that an earlier step has already used."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "optimizer step"


def check(facts: Facts) -> Iterator[Finding]:
    for step in facts.steps:
        for grads in step.grads:
            if grads.kind == "stale" and grads.place is not None:
                name = f"`{step.optimizer}`" if step.optimizer else "the optimizer"
                yield Finding(
                    f"This backward adds to gradients that {name} has already stepped along: nothing clears them",
                    grads.place.location,
                    help=f"call `{step.optimizer or 'optimizer'}.zero_grad()` for every step, before this backward",
                    related=(step.place.location,),
                )
