"""flatten-batch: a forward pass flattens the batch along with the features."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, File, Function
from mlcheck.lint.sites.guards import in_forward
from mlcheck.lint.sites.latest import latest

LOOKS_AT = "flattening"
WORDS = ("flatten(",)
_ONE = pattern(r"obs(?:ervation)?|state|sample|board")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["flatten("]):
        for call in file.calls("flatten"):
            function = in_forward(call)
            if function is None or not _is_whole(call) or _takes_one_sample(function):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            if _feeds_linear(file, function, call):
                yield Finding(
                    "`flatten()` merges the samples of the batch into one vector, and a linear layer takes it",
                    call.place.location,
                    help="use `flatten(1)`, which keeps the batch",
                )


def _takes_one_sample(function: Function) -> bool:
    """Whether an argument is called what an agent acts on: one observation at a time, and no batch."""
    return any(_ONE.fullmatch(name) for name in function.parameters)


def _is_whole(call: Call) -> bool:
    """`x.flatten()` and `torch.flatten(x)`: from the first dimension to the last."""
    given = len(call.node.args) + len(call.node.keywords)
    if call.file.resolve(call.node.func, call.context) == "torch.flatten":
        return given == 1
    return isinstance(call.node.func, ast.Attribute) and given == 0


def _feeds_linear(file: File, function: Function, call: Call) -> bool:
    for node in function.nodes:
        if not isinstance(node, ast.Call) or len(node.args) != 1 or not _is_linear(file, node.func, call):
            continue
        given = node.args[0]
        if given is call.node:
            return True
        if isinstance(given, ast.Name):
            found = latest(file, given, call.context)
            if found is not None and found.value is call.node:
                return True
    return False


def _is_linear(file: File, node: ast.expr, call: Call) -> bool:
    """Whether this is a linear layer, or a Sequential that begins with one."""
    held, context = file.value(node, call.context)
    if not isinstance(held, ast.Call):
        return False
    named = file.resolve(held.func, context)
    if named == "torch.nn.Sequential" and held.args and isinstance(held.args[0], ast.Call):
        named = file.resolve(held.args[0].func, context)
    return named == "torch.nn.Linear"
