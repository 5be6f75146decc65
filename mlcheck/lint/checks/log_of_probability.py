"""log-of-probability: the logarithm of a softmax or sigmoid, which may have become zero."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.names import canonical
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.layers.tensors import activation

LOOKS_AT = "logarithm"
WORDS = ("log(",)
_INSTEAD = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["log("]):
        if "softmax" not in file.text.lower() and "sigmoid" not in file.text.lower():
            continue
        for call in file.calls("log"):
            given = _given(call)
            if given is None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            found = activation(file, given, call.context)
            if found is not None and found[0] in _INSTEAD:
                yield Finding(
                    f"The logarithm of a `{found[0]}` is -inf where the probability has become 0, and its gradient NaN",
                    call.place.location,
                    help=f"use `{_INSTEAD[found[0]]}`, which cannot underflow",
                )


def _given(call: Call) -> ast.expr | None:
    """What `torch.log(x)` or `x.log()` takes the logarithm of."""
    named = call.file.resolve(call.node.func, call.context)
    if isinstance(named, str):
        return call.node.args[0] if canonical(named) == "torch.log" and len(call.node.args) == 1 else None
    func = call.node.func
    return func.value if isinstance(func, ast.Attribute) and not call.node.args and not call.node.keywords else None
