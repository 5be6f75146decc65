"""kl-mean-reduction: a KL divergence divided by the number of classes as well as by the batch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, is_none, last_name, walk
from mlcheck.lint.sites import Call

LOOKS_AT = "KL divergence"
WORDS = ("kl_div", "KLDivLoss")
_FUNCTION = "torch.nn.functional.kl_div"
_LAYER = "torch.nn.KLDivLoss"
_SIZES = ("size", "shape", "len(", "numel", "num_", "n_", "classes", "dim", "sum(")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(_FUNCTION, "torch.kl_div", _LAYER))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        layer = call.name == _LAYER
        first = 0 if layer else 2
        old = [call.argument("size_average", first), call.argument("reduce", first + 1)]
        if any(given is not None and not is_none(given) for given in old):
            continue
        if call.constant("reduction", 2 if layer else 4, default="mean") == "mean" and not (
            _is_rescaled(call) or _is_shown(call)
        ):
            yield Finding(
                "KL divergence with `reduction='mean'` divides by all elements: it is smaller than the divergence "
                "by the number of classes",
                call.place.location,
                help='pass `reduction="batchmean"`',
            )


def _is_shown(call: Call) -> bool:
    """`print(F.kl_div(...))`: somebody compares numbers, and trains with none of them."""
    body = call.function.node if call.function is not None else call.file.module.source.tree
    shown = (node for node in walk(body) if isinstance(node, ast.Call) and is_name(node.func, "print"))
    return any(part is call.node for node in shown for part in walk(node))


def _called(node: ast.AST) -> str:
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _is_rescaled(call: Call) -> bool:
    """Whether the statement around it, or one that uses the criterion, multiplies by a size."""
    layer = call.file.names_given(call.node) if call.name == _LAYER else ()
    inside = call.function.node if call.function is not None else None
    body = inside if inside is not None and not layer else call.file.module.source.tree
    for node in walk(body):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            text = ast.unparse(node)
            used = any(part is call.node or _called(part) in layer for part in walk(node))
            if used and any(word in text for word in _SIZES):
                return True
    return False
