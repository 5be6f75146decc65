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

_KEEPS = ("detach", "clone", "float", "to", "cuda", "cpu", "type")
_FILLED = ("torch.zeros", "torch.empty", "torch.ones", "torch.rand", "torch.randn")
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
    """`q.gather(1, action)` keeps the second dimension, and `target.max(1)`, or `torch.zeros(size)`, has none: a column
    against a flat one."""
    for loss in facts.losses:
        call = facts.sites.call_at(loss.place) if loss.name in _ELEMENTWISE else None
        if call is None or call.file.is_test or len(call.node.args) < 2 or ".gather(" not in call.file.text:
            continue
        file = call.file
        given, _ = source(file, call.node.args[0], call.context)
        best = _flat(file, call.node.args[1], call.context) if _is_of_second(given, "gather") else None
        if best is not None:
            other = "`max` drops it" if _is_of_second(best, "max") else f"`{ast.unparse(best)}` has none"
            yield Finding(
                f"`gather` keeps the second dimension and {other}: the shapes broadcast, and every "
                "prediction is compared with every target",
                loss.place.location,
                help="`gather(...).squeeze(1)`, or `unsqueeze(1)` for the target",
                related=(file.place(given, call.context).location, file.place(best, call.context).location),
            )


def _is_of_second(node: ast.expr, name: str) -> bool:
    """`x.name(1, ...)`, `x.name(dim=1)`: a method called for the second dimension alone."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != name:
        return False
    dims = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "dim")]
    return [ast.unparse(dim) for dim in dims] in (["1"], ["-1"])


def _flat(file: File, node: ast.expr, context: Context, depth: int = 12) -> ast.Call | None:
    """`q.max(1).values`, `q.max(1)[0]` or `torch.zeros(size)`, in what is computed from it by arithmetic alone."""
    if depth == 0:
        return None
    if isinstance(node, ast.Name):
        found, where = source(file, node, context)
        return _flat(file, found, where, depth - 1) if found is not node else None
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        left = _flat(file, node.left, context, depth - 1)
        return left if left is not None else _flat(file, node.right, context, depth - 1)
    if isinstance(node, ast.Call):
        return node if _is_row(file, node, context) else _flat_inside(file, node, context, depth)
    if isinstance(node, ast.NamedExpr):
        return _flat(file, node.value, context, depth - 1)
    return _flat_maximum(node)


def _is_row(file: File, call: ast.Call, context: Context) -> bool:
    """`torch.zeros(size)` of a size that is a number, and more than one."""
    if file.resolve(call.func, context) not in _FILLED or len(call.args) != 1 or isinstance(call.args[0], ast.Starred):
        return False
    size, _ = source(file, call.args[0], context)
    counted = isinstance(size, ast.Call) and ast.unparse(size.func) == "len"
    return counted or (isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value > 1)


def _flat_inside(file: File, call: ast.Call, context: Context, depth: int) -> ast.Call | None:
    """What a cast, or the `Variable` of old, leaves in its shape."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPS:
        return _flat(file, call.func.value, context, depth - 1)
    wraps = len(call.args) == 1 and file.resolve(call.func, context) == "torch.autograd.Variable"
    return _flat(file, call.args[0], context, depth - 1) if wraps else None


def _flat_maximum(node: ast.expr) -> ast.Call | None:
    """`q.max(1)` of `q.max(1).values` and `q.max(1)[0]`."""
    values = isinstance(node, ast.Attribute) and node.attr == "values"
    if not values and not (isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0"):
        return None
    inner = getattr(node, "value", node)
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _KEEPS:
        inner = inner.func.value
    if not isinstance(inner, ast.Call) or not _is_of_second(inner, "max") or len(inner.args) > 1:
        return None
    return inner if all(word.arg != "keepdim" for word in inner.keywords) else None


def _finding(who: str, shapes: tuple[Shape, Shape], place: Place) -> Finding:
    return Finding(
        f"{who} gets shapes {written(shapes[0])} and {written(shapes[1])}: they broadcast, "
        "and every prediction is compared with every target",
        place.location,
        help="give both one shape: `prediction.squeeze(-1)`, or `target.unsqueeze(-1)`",
    )
