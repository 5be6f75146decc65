"""regression-broadcast: an elementwise loss compares every prediction with every target."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.shapes.algebra import outgrows, written
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.values import Shape, Symbol, Tensor

_KEEPS = ("detach", "clone", "float", "to", "cuda", "cpu")
LOOKS_AT = "regression loss"
_ELEMENTWISE = {f"torch.nn.{name}" for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")}


def check(facts: Facts) -> Iterator[Finding]:
    yield from _columns(facts)
    for broadcast in facts.broadcasts:
        yield _finding("This", broadcast.shapes, broadcast.place)
    for loss in losses_of(facts, LOOKS_AT, *sorted(_ELEMENTWISE)):
        given, target = loss.input, loss.target
        if not isinstance(given, Tensor | Symbol):
            continue
        if not isinstance(target, Tensor | Symbol) or given.shape is None or target.shape is None:
            continue
        if outgrows(given.shape, target.shape):
            yield _finding(f"`{loss.name.rpartition('.')[2]}`", (given.shape, target.shape), loss.place)


def _columns(facts: Facts) -> Iterator[Finding]:
    """`q.gather(1, action)` keeps the second dimension, and `target.max(1)` drops it: a column against a flat one."""
    for loss in facts.losses:
        call = facts.sites.call_at(loss.place) if loss.name in _ELEMENTWISE else None
        if call is None or call.file.is_test or len(call.node.args) < 2 or ".gather(" not in call.file.text:
            continue
        file = call.file
        given, _ = source(file, call.node.args[0], call.context)
        best = _flat_maximum(file, call.node.args[1], call.context)
        if _is_of_second(given, "gather") and best is not None:
            yield Finding(
                "`gather` keeps the second dimension and `max` drops it: the shapes broadcast, and every "
                "prediction is compared with every target",
                loss.place.location,
                help="`gather(...).squeeze(1)`, or `max(1, keepdim=True)`",
                related=(file.place(given, call.context).location, file.place(best, call.context).location),
            )


def _is_of_second(node: ast.expr, name: str) -> bool:
    """`x.name(1, ...)`, `x.name(dim=1)`: a method called for the second dimension alone."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != name:
        return False
    dims = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "dim")]
    return [ast.unparse(dim) for dim in dims] in (["1"], ["-1"])


def _flat_maximum(file: File, node: ast.expr, context: Context, depth: int = 6) -> ast.expr | None:
    """`q.max(1).values` or `q.max(1)[0]` in what is computed from it by arithmetic alone."""
    if depth == 0:
        return None
    if isinstance(node, ast.Name):
        found, where = source(file, node, context)
        return _flat_maximum(file, found, where, depth - 1) if found is not node else None
    if isinstance(node, ast.BinOp):
        left = _flat_maximum(file, node.left, context, depth - 1)
        return left if left is not None else _flat_maximum(file, node.right, context, depth - 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
        return _flat_maximum(file, node.func.value, context, depth - 1)
    taken = (isinstance(node, ast.Attribute) and node.attr == "values") or (
        isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0"
    )
    if not taken or not isinstance(node, ast.Attribute | ast.Subscript):
        return _flat_maximum(file, node.value, context, depth - 1) if isinstance(node, ast.NamedExpr) else None
    inner = node.value
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _KEEPS:
        inner = inner.func.value
    keeps = isinstance(inner, ast.Call) and any(word.arg == "keepdim" for word in inner.keywords)
    return inner if _is_of_second(inner, "max") and not keeps and len(getattr(inner, "args", ())) < 2 else None


def _finding(who: str, shapes: tuple[Shape, Shape], place: Place) -> Finding:
    return Finding(
        f"{who} gets shapes {written(shapes[0])} and {written(shapes[1])}: they broadcast, "
        "and every prediction is compared with every target",
        place.location,
        help="give both one shape: `prediction.squeeze(-1)`, or `target.unsqueeze(-1)`",
    )
