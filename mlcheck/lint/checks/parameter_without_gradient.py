"""parameter-without-gradient: a module of the optimizer whose results reach the loss only past a cut."""

from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward

LOOKS_AT = "optimizer step"
_NOT_TRAINED = ("target", "teacher", "ema", "momentum", "frozen", "fixed", "old")


def check(facts: Facts) -> Iterator[Finding]:
    trained: set[Hashable] = set()
    for forward in facts.forwards:
        trained |= forward.touched if forward.trained else set()
    for lost in facts.training.lost:
        forward = lost.forward
        if forward.touched.isdisjoint(trained) and not _is_meant(forward):
            yield Finding(
                f"The graph is cut behind `{forward.name}`: the optimizer holds it, and it never gets a gradient",
                lost.place.location,
                help=f"take out the cut, or leave `{forward.name}` out of the optimizer",
                related=(forward.place.location, lost.backward.location),
            )


def _is_meant(forward: Forward) -> bool:
    """A module that was trained before, or that its name or mode says is not to be trained."""
    if forward.restored or "eval" in {mode.kind for mode in forward.modes}:
        return True
    return any(word in forward.name.lower() for word in _NOT_TRAINED)
