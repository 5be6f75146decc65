"""What a line adds to a sum, a list or a moving average of losses."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_length, is_name, last_name, walk


def added_by(line: ast.stmt) -> tuple[str, str]:
    """`total` and `loss` of `total += loss`, `total = total + loss * len(x)`, `losses.append(loss)`; or "".

    What is put into a list as it is computed goes by its place there, `losses[-1]`.
    """
    match line:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.Name(id=loss)])
        ):
            return name, loss
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.Call()])):
            return name, f"{name}[-1]"
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            return name, _scaled(value)
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add(), right=value)
        ) if name == left:
            return name, _scaled(value)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=kept, op=ast.Add(), right=value)) if averages(
            line
        ):
            return name, _factor(value if any(is_name(part, name) for part in walk(kept)) else kept)
    return "", ""


def averages(line: ast.stmt) -> bool:
    """`average = 0.9 * average + 0.1 * loss`."""
    match line:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.BinOp(op=ast.Mult()) as kept, op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as new),
        ):
            return sum(any(is_name(part, name) for part in (side.left, side.right)) for side in (kept, new)) == 1
    return False


def _factor(value: ast.expr) -> str:
    """The name of `0.1 * loss`, `(1 - beta) * loss`, `loss * 0.1`."""
    sides = [value.left, value.right] if isinstance(value, ast.BinOp) else []
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    return names[-1] if isinstance(sides[-1], ast.Name) else names[0] if names else ""


def _scaled(value: ast.expr) -> str:
    """The name of `loss`, `loss / 8`, `loss * len(x)` and `loss * x.size(0)`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        factor = value.right
        counted = isinstance(factor, ast.Constant) or is_length(factor)
        if counted or (isinstance(factor, ast.Call) and last_name(factor.func) == "size" and factor.args):
            value = value.left
    return value.id if isinstance(value, ast.Name) else ""
