"""The sum that is the divergence of a Gaussian from the unit one: `1 + logvar - mu.pow(2) - logvar.exp()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def terms(node: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
    """The terms of a sum with their signs; what stands in parentheses on the right is one term."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from terms(node.left, sign)
        yield (sign if isinstance(node.op, ast.Add) else -sign), node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from terms(node.operand, -sign)
    else:
        yield sign, node


def is_square(node: ast.expr) -> bool:
    """`mu.pow(2)`, `mu ** 2`, `torch.square(mu)`, `mu * mu`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return isinstance(node.right, ast.Constant) and node.right.value == 2
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return ast.unparse(node.left) == ast.unparse(node.right)
    last = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return last in ("pow", "square")


def raised(node: ast.expr) -> str:
    """`logvar` of `logvar.exp()` and of `torch.exp(logvar)`."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr not in ("exp", "exp_")
    ):
        return ""
    return ast.unparse(node.args[0] if node.args else node.func.value)


def unevenly_scaled(node: ast.BinOp) -> str:
    """`l` of `1 + 2 * l - m ** 2 - exp(l)`: the logarithm of a square beside what was not squared; "" of all else.

    As a function of `l` this is flat where it is nought only if both are of the same multiple.
    """
    parts = list(terms(node, 1))
    ones = [sign for sign, term in parts if isinstance(term, ast.Constant) and term.value == 1]
    raised_parts = [(sign, found) for sign, term in parts if (found := _multiple_raised(term))]
    rest = [(sign, term) for sign, term in parts if not _multiple_raised(term) and not isinstance(term, ast.Constant)]
    squares = [sign for sign, term in rest if is_square(term)]
    logs = [(sign, found) for sign, term in rest if not is_square(term) and (found := _multiple(term))]
    if len(parts) != 4 or [len(each) for each in (ones, raised_parts, squares, logs)] != [1, 1, 1, 1]:
        return ""
    (sign, (times, name)), (other, (power, of)) = logs[0], raised_parts[0]
    agree = sign == ones[0] and other == squares[0] == -ones[0]
    return name if agree and name == of and times != power else ""


def _multiple(node: ast.expr) -> tuple[float, str] | None:
    """2 and `l` of `2 * l`, `l * 2` and `l.mul(2)`; 1 and `l` of `l`."""
    match node:
        case ast.Name() | ast.Attribute():
            return 1.0, ast.unparse(node)
        case ast.BinOp(left=ast.Constant(value=int() | float() as times), op=ast.Mult(), right=inner):
            pass
        case ast.BinOp(left=inner, op=ast.Mult(), right=ast.Constant(value=int() | float() as times)):
            pass
        case _:
            return None
    return (float(times), ast.unparse(inner)) if isinstance(inner, ast.Name | ast.Attribute) else None


def _multiple_raised(node: ast.expr) -> tuple[float, str] | None:
    """2 and `l` of `exp(2 * l)`, `exp(l) ** 2`, `l.exp().pow(2)` and `exp(l).square()`; 1 and `l` of `exp(l)`."""
    match node:
        case ast.BinOp(left=inner, op=ast.Pow(), right=ast.Constant(value=2)):
            found = _multiple_raised(inner)
            return (2 * found[0], found[1]) if found is not None else None
        case ast.Call(func=ast.Attribute(value=owner, attr="pow" | "square" as last), args=given):
            inner = given[0] if given and isinstance(owner, ast.Name) and owner.id == "torch" else owner
            power = given[-1] if last == "pow" and given else ast.Constant(2)
            found = _multiple_raised(inner)
            return (2 * found[0], found[1]) if found is not None and ast.unparse(power) in ("2", "2.0") else None
        case ast.Call(func=ast.Attribute(value=owner, attr="exp" | "exp_"), args=given):
            return _multiple(given[0] if given else owner)
    return None
