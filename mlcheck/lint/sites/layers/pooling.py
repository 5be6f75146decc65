"""Attention pooling: weights from a softmax, multiplied with what they were computed from, and summed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.scopes import Context

_SIZE_KEPT = [f"torch.{name}" for name in ("tanh", "relu", "sigmoid")]
_LAST = ("-1", "2")
_SIZE_KEPT += [f"torch.nn.functional.{name}" for name in ("tanh", "relu", "gelu", "silu", "leaky_relu", "elu")]


def pooled_elsewhere(forward: Function, node: ast.Call) -> Iterator[Finding]:
    """`w = softmax(self.score(x), dim=0)`, and `(w * x).sum(1)`: weights of the samples, summed over their parts."""
    call = Call(forward.file, node, forward.inner)
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "sum":
        return
    by_function = forward.file.called(node, forward.inner) == "torch.sum"
    product = call.argument("input", 0) if by_function else node.func.value
    dim = call.constant("dim", 1 if by_function else 0)
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult) or dim not in (1, 2):
        return
    for weights, values in ((product.left, product.right), (product.right, product.left)):
        made, context = source(forward.file, _narrow(weights), forward.inner)
        scored = _softmax_over_samples(forward, made)
        if scored is None or not isinstance(values, ast.Name):
            continue
        given = _unmasked(forward, scored, context)
        if (_narrow(weights) is weights) != (_wide(given) is given):
            continue
        scored = _first_input(forward, _wide(given))
        if scored is not None and ast.unparse(scored) == values.id and _is_unchanged(forward, scored, values):
            yield Finding(
                f"These weights add up to one over the samples of the batch, and are summed over dimension {dim}",
                forward.place(made).location,
                help=f"`dim={dim}`, the dimension that is summed over",
                related=(forward.place(node).location,),
            )


def _unmasked(forward: Function, scored: ast.expr, context: Context) -> ast.expr:
    """`self.score(x).squeeze(-1)` of that with the padding masked out."""
    made, where = source(forward.file, scored, context)
    while (inner := before_methods(made, ("masked_fill",))) is not made:
        made, where = source(forward.file, inner, where)
    return made


def _narrow(node: ast.expr) -> ast.expr:
    """`w` of `w.unsqueeze(-1)` and `w[..., None]`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze"), args=[last]) if ast.unparse(last) in _LAST:
            return inner
        case ast.Subscript(value=inner, slice=index) if ast.unparse(index) in ("(..., None)", "(:, :, None)"):
            return inner
    return node


def _wide(node: ast.expr) -> ast.expr:
    """`scores` of `scores.squeeze(-1)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze"), args=[last]) if ast.unparse(last) in _LAST:
            return inner
    return node


def _softmax_over_samples(forward: Function, node: ast.expr) -> ast.expr | None:
    """What a softmax over dimension 0 is taken of."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    sets = forward.cls.attribute(own_attribute(node.func, forward)) if forward.cls is not None else []
    layer = sets[0][1].value if len(sets) == 1 and len(node.args) == 1 else None
    if isinstance(layer, ast.Call) and forward.file.called(layer, sets[0][1].context) == "torch.nn.Softmax":
        return node.args[0] if Call(sets[0][0].file, layer, sets[0][1].context).constant("dim", 0) == 0 else None
    if node.func.attr != "softmax":
        return None
    call = Call(forward.file, node, forward.inner)
    of_function = forward.file.called(node, forward.inner) in ("torch.softmax", "torch.nn.functional.softmax")
    dim = call.constant("dim", 1 if of_function else 0)
    given = call.argument("input", 0) if of_function else node.func.value
    return given if dim == 0 and dim is not False else None


def _first_input(forward: Function, node: ast.expr) -> ast.expr | None:
    """`x` of `self.score(torch.tanh(self.first(x)))`; None where no layer of the module is among them."""
    layers = 0
    while isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        own = bool(own_attribute(node.func, forward))
        if not own and forward.file.called(node, forward.inner) not in _SIZE_KEPT:
            return None
        node, layers = node.args[0], layers + own
    return node if layers else None


def _is_unchanged(forward: Function, first: ast.expr, second: ast.Name) -> bool:
    if not isinstance(first, ast.Name):
        return False
    held = latest(forward.file, first, forward.inner)
    return held is not None and held is latest(forward.file, second, forward.inner)
