"""hard-coded-cuda: a module that brings its own device along."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.layers.modules import is_module, module_classes

LOOKS_AT = "module class"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(facts.sites.once(module_classes))
    for file in facts.sites.mentioning(["cuda"]):
        found = [call for call in file.calls("cuda", "to", *_FACTORIES) if _is_hard_coded(call)]
        if found:
            yield Finding(
                "This module puts tensors on a hard-coded GPU: it runs on no other device, "
                "and under several processes all of them use this one",
                found[0].place.location,
                help="take the device of the input or of a parameter, `device=x.device`, or register a buffer",
                related=tuple(call.place.location for call in found[1:5]),
            )


_FACTORIES = ("zeros", "ones", "tensor", "randn", "rand", "arange", "empty", "full", "eye")


def _is_hard_coded(call: Call) -> bool:
    """`x.cuda()`, `x.to("cuda:0")`, `torch.zeros(n, device="cuda")` in a method of a module, under no condition."""
    function = call.function
    if function is None or function.cls is None or not is_module(function.cls) or function.name in ("to", "cuda"):
        return False
    if any(outer.kind in ("if", "try") for outer in call.context.outwards()):
        return False
    name = call.node.func.attr if isinstance(call.node.func, ast.Attribute) else ""
    if name == "cuda":
        return not call.node.args and not call.node.keywords and call.file.resolve(call.node.func, call.context) is None
    given = call.argument("device", 0 if name == "to" else None)
    return isinstance(given, ast.Constant) and isinstance(given.value, str) and given.value.startswith("cuda")
