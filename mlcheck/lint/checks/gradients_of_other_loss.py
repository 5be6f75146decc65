"""gradients-of-other-loss: an optimizer steps along what the loss of its opponent left in its parameters."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "several-optimizer loop"


def check(facts: Facts) -> Iterator[Finding]:
    stepped = {(step.key, loop.node) for step in facts.steps for loop, _ in step.when.loops}
    loops = [loop for _, loop in stepped]
    facts.sites.seen[LOOKS_AT] = len({loop for loop in loops if loops.count(loop) > 1})
    for mixed in facts.training.mixed:
        made = facts.training.optimizers.get(mixed.key)
        name = made.name if made is not None and made.name else "the optimizer"
        yield Finding(
            "The gradients of the other loss are still there: this backward adds to them, "
            f"and `{name}` steps along both",
            mixed.place.location,
            help=f"`{name}.zero_grad()` right before this backward",
            related=(mixed.earlier.location,),
        )
