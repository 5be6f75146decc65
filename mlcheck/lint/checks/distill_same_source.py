"""distill-same-source: a divergence between a distribution and itself."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Context
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.layers.tensors import activation
from mlcheck.lint.sites.training.unasked_teachers import unasked_teachers

LOOKS_AT = "KL divergence"
WORDS = ("kl_div", "KLDivLoss", "teacher")
_FUNCTION = "torch.nn.functional.kl_div"
_KEEPS = ("detach", "float", "clone", "double", "half", "to", "contiguous")


def check(facts: Facts) -> Iterator[Finding]:
    calls = [*facts.sites.calls(_FUNCTION, "torch.kl_div"), *_of_criteria(facts)]
    facts.sites.seen[LOOKS_AT] = len(calls)
    for name, place in unasked_teachers(facts.sites):
        yield Finding(
            f"`{name}` is made ready and never asked: what the student is compared with comes from elsewhere",
            place.location,
            help="let it compute what the student is to learn",
        )
    for call in calls:
        given, target = call.argument("input", 0), call.argument("target", 1)
        if given is None or target is None:
            continue
        one, two = _logits(call, given, call.context), _logits(call, target, call.context)
        if one is not None and one == two:
            yield Finding(
                f"Both distributions come from `{one[0]}`: their divergence teaches nothing",
                call.place.location,
                help="take one from the student and the other from the teacher",
            )


def _of_criteria(facts: Facts) -> Iterator[Call]:
    """Calls of a name or attribute that holds an `nn.KLDivLoss`."""
    for file in facts.sites.mentioning(["KLDivLoss"]):
        names = {
            last_name(target)
            for node in walk(file.module.source.tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            for target in node.targets
            if isinstance(target, ast.Attribute | ast.Name) and "KLDivLoss" in ast.unparse(node.value.func)
        }
        yield from file.calls(*sorted(names))


def _logits(call: Call, node: ast.expr, context: Context) -> tuple[str, object, list[str]] | None:
    """The name of the scores behind a distribution, the binding it has there, and the temperatures between.

    Two temperatures make two distributions of one output: the sharper is a target.
    """
    temperatures = []
    found = activation(call.file, node, context)
    if found is None:
        return None
    _, inner, context = found
    while True:
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div | ast.Mult):
            temperatures.append(ast.unparse(inner.right))
            inner = inner.left
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _KEEPS:
            inner = inner.func.value
        else:
            break
    if not isinstance(inner, ast.Name):
        return None
    binding = latest(call.file, inner, context)
    return (inner.id, id(binding.node), temperatures) if binding is not None else None
