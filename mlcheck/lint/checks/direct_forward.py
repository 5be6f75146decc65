"""direct-forward: `model.forward(x)` in place of `model(x)`."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    for bypass in facts.bypasses:
        yield Finding(
            f"`{bypass.name}.forward()` leaves out the hooks of the module, and with them DDP, FSDP and profilers",
            bypass.place.location,
            help=f"call the module itself: `{bypass.name}(...)`",
        )
