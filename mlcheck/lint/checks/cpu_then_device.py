"""cpu-then-device: a tensor is made on the CPU in every step, and copied to the device."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.guards import in_forward

LOOKS_AT = "move to a device"
_NAMES = ("zeros", "ones", "full", "empty", "eye", "arange", "linspace", "randn", "rand", "randint")
_FACTORIES = frozenset(f"torch.{name}" for name in _NAMES)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["torch"]):
        for call in file.calls("to", "cuda"):
            func = call.node.func
            made = func.value if isinstance(func, ast.Attribute) else None
            if not isinstance(made, ast.Call) or not (call.loops or in_forward(call)):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            named = file.resolve(made.func, call.context)
            settings = {keyword.arg for keyword in made.keywords}
            if named in _FACTORIES and not settings & {"device", "generator", "pin_memory", None} and _moves(call):
                yield Finding(
                    f"`{named}` makes the tensor on the CPU, and each time it is copied to the device",
                    call.place.location,
                    help=f"make it there: `{named}(..., device=...)`",
                )


def _moves(call: Call) -> bool:
    """`.cuda()` and `.to(device)`, and no mere change of type."""
    if isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "cuda":
        return True
    given = ast.unparse(call.node).rpartition(".to(")[2]
    return "device" in given or "cuda" in given
