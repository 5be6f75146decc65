"""What is the mean over a batch: some losses, what ends in `.mean()`, and functions of the project that return it."""

from __future__ import annotations

import ast
from collections.abc import Collection

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.scopes import Context

Spot = tuple[str, int, int]
_WEIGHT = pattern(r"lambda|alpha|beta|weight|coef|gamma|(?:^|_)w(?:_|$)")
_MOVES = ("item", "detach", "cpu")
_DEPTH = 4


def is_loss_of(file: File, node: ast.expr, context: Context, losses: Collection[Spot]) -> bool:
    """Whether it is what one of these calls gives, moved or not."""
    for _ in range(2):
        node = last_bound(file, _moved(node), context)
    node = _moved(node)
    return isinstance(node, ast.Call) and (file.path, node.lineno, node.col_offset) in losses


def is_batch_mean(file: File, node: ast.expr, context: Context, means: Collection[Spot], depth: int = _DEPTH) -> bool:
    """`means` are the calls of losses that are known to take it."""
    for _ in range(2):  # `value = loss.item()`, and the sum of that
        node = last_bound(file, _moved(node), context)
    node = _moved(node)
    if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.Constant) and node.orelse.value == 0:
        node = node.body  # a term that is left out for other tasks
    if isinstance(node, ast.Name):
        return depth > 0 and _is_item_of_mean(file, node, context, means, depth)
    if isinstance(node, ast.BinOp):
        return _is_sum_of_means(file, node, context, means, depth)
    if not isinstance(node, ast.Call) or depth == 0:
        return False
    if (file.path, node.lineno, node.col_offset) in means or _takes_mean(file, node, context):
        return True
    named = _called(file, node, context)
    if named is None or named.node.decorator_list or any(isinstance(each, ast.Yield) for each in named.nodes):
        return False
    given = list(returns(named))
    return bool(given) and all(is_batch_mean(named.file, each, named.inner, means, depth - 1) for each in given)


def _is_item_of_mean(file: File, node: ast.Name, context: Context, means: Collection[Spot], depth: int) -> bool:
    """`loss, scores = step(model, batch)`, where the first of what `step` returns is one."""
    above = [b for b in file.bindings(node.id, context) if getattr(b.node, "lineno", 0) < node.lineno]
    bound = above[-1] if above and all(b.kind == "item" for b in above) else None
    named = _called(file, bound.value, bound.context) if bound and isinstance(bound.value, ast.Call) else None
    if bound is None or named is None or named.node.decorator_list:
        return False
    told = list(returns(named))
    given = [each.elts[bound.item] for each in told if isinstance(each, ast.Tuple) and bound.item < len(each.elts)]
    mean = (is_batch_mean(named.file, each, named.inner, means, depth - 1) for each in given)
    return len(given) == len(told) > 0 and all(mean)


def _moved(node: ast.expr) -> ast.expr:
    """`loss` of `loss.item()`, `float(loss)` and `loss.data.cpu()`."""
    while True:
        inner = before_methods(node, _MOVES)
        if isinstance(inner, ast.Call) and is_name(inner.func, "float") and inner.args:
            inner = inner.args[0]
        elif isinstance(inner, ast.Attribute) and inner.attr == "data":
            inner = inner.value
        if inner is node:
            return node
        node = inner


def _is_sum_of_means(file: File, node: ast.BinOp, context: Context, means: Collection[Spot], depth: int) -> bool:
    """`ce.mean() + 0.5 * kl.mean()`, and `ce.mean() + penalty`, unless that is a sum."""
    sides = (node.left, node.right)
    if isinstance(node.op, ast.Add | ast.Sub):
        found = [is_batch_mean(file, side, context, means, depth) for side in sides]
        others = [side for side, is_mean in zip(sides, found, strict=True) if not is_mean]
        return any(found) and not any("sum" in _written(file, side, context) for side in others)
    if isinstance(node.op, ast.Mult):
        weights = [isinstance(side, ast.Constant) or _WEIGHT.search(last_name(side).lower()) for side in sides]
        return any(
            weight and is_batch_mean(file, other, context, means, depth)
            for weight, other in zip(weights, reversed(sides), strict=True)
        )
    return False


def _written(file: File, node: ast.expr, context: Context) -> str:
    """The text of a term, with what its names were given last."""
    parts = [part for part in walk(node) if isinstance(part, ast.Name)]
    return " ".join(ast.unparse(each) for each in (node, *(last_bound(file, part, context) for part in parts)))


def _takes_mean(file: File, node: ast.Call, context: Context) -> bool:
    """`x.mean()` and `torch.mean(x)`, over everything."""
    if node.keywords or last_name(node.func) != "mean" or not isinstance(node.func, ast.Attribute):
        return False
    return len(node.args) == (1 if file.called(node, context) == "torch.mean" else 0)


def _called(file: File, node: ast.Call, context: Context) -> Function | None:
    """The function of the project, or the `forward` of the module of the project, that is certainly called."""
    named = file.resolve(node.func, context)
    if isinstance(named, Function):
        return named
    found = origins(file, node.func, context)
    made = [each.file.resolve(each.node.func, each.context) for each in found if isinstance(each.node, ast.Call)]
    if len(made) != 1 or len(found) != 1 or not isinstance(made[0], Class):
        return None
    return made[0].find("forward") if made[0].find("__call__") is None else None


def last_bound(file: File, node: ast.expr, context: Context) -> ast.expr:
    """What a name was given last above its use, and not by the statement it stands in; anything else as it is."""
    if not isinstance(node, ast.Name):
        return node
    above = [
        b
        for b in file.bindings(node.id, context)
        if getattr(b.node, "lineno", 0) <= node.lineno and not (b.value and any(part is node for part in walk(b.value)))
    ]
    value = above[-1].value if above and above[-1].kind == "value" else None
    return value if isinstance(value, ast.expr) else node
