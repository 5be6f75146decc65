"""How many dimensions a tensor has, where the text of a function writes them out."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import given
from mlcheck.lint.sites.scopes import Context

_DEEP = 10
_KEEPING = frozenset(
    ["to", "cuda", "cpu", "float", "double", "half", "type", "type_as", "detach", "clone", "contiguous"]
)
_KEEPING |= {"requires_grad_", "uniform_", "normal_", "abs", "exp", "clamp", "data"}
_SIZED = frozenset(["view", "reshape"])
_MAKING = frozenset(["rand", "randn", "zeros", "ones", "empty", "FloatTensor", "Tensor", "random"])
_WRAPPING = frozenset(["Variable", "from_numpy", "tensor", "as_tensor", "Tensor", "FloatTensor"])
_SAME = -1


def rank_of(file: File, node: ast.expr, context: Context) -> int | None:
    """The number of dimensions of what is read here; None where it cannot be told."""
    rank = _rank(file, node, context, "", _DEEP)
    return rank if rank is not None and rank > 0 else None


def least_rank(file: File, node: ast.expr, context: Context, depth: int = _DEEP) -> int:
    """A number of dimensions that it has at least, whoever calls the function: those that were put in or written."""
    node, context = source(file, node, context)
    if isinstance(node, ast.Name) and depth > 0:
        bound = latest(file, node, context)
        function = file.function_around(context) if bound is not None and bound.kind == "param" else None
        held = given(file.sites, function, node.id) if function is not None else ()
        return min((least_rank(*each[:3], depth - 1) for each in held), default=1)
    if not isinstance(node, ast.Call):
        return 1
    last, call = last_name(node.func), Call(file, node, context)
    of_torch = file.called(node, context).startswith("torch.")
    owner = node.args[0] if of_torch and node.args else call.owner
    if last == "unsqueeze" and owner is not None:
        return 1 + least_rank(file, owner, context, depth)
    if last in _KEEPING and owner is not None:
        return least_rank(file, owner, context, depth)
    if last == "stack" and of_torch:
        dim = call.constant("dim", 1, 0)
        return max(2, dim + 1) if isinstance(dim, int) else 2
    if last == "bmm":
        return 3
    if (last in _SIZED or last in ("permute", "expand")) and not of_torch:
        return _written(node.args) or 1
    return 1


def _rank(file: File, node: ast.expr, context: Context, held: str, depth: int) -> int | None:
    """As above; _SAME where it is that of the variable that this is assigned to."""
    if depth <= 0:
        return None
    match node:
        case ast.Name(id=name):
            return _SAME if name == held else _of_name(file, node, context, depth - 1)
        case ast.BinOp(left=left, right=right):
            sides = [_rank(file, side, context, held, depth - 1) for side in (left, right)]
            known = [rank for rank in sides if rank is not None]
            return max(known, default=None)
        case ast.IfExp(body=body, orelse=other):
            first, second = (_rank(file, arm, context, held, depth - 1) for arm in (body, other))
            return first if first == second else None
        case ast.Call():
            return _of_call(file, node, context, held, depth - 1)
    return None


def _of_name(file: File, node: ast.Name, context: Context, depth: int) -> int | None:
    """What the bindings above leave, one after the other; any that is not understood makes it unknown."""
    rank = None
    for binding in file.bindings(node.id, context):
        if getattr(binding.node, "lineno", 0) >= node.lineno or binding.kind == "param":
            continue
        value = binding.value if binding.kind == "value" else None
        if not isinstance(value, ast.expr):
            return None
        found = _rank(file, value, binding.context, node.id, depth)
        rank = rank if found == _SAME else found
    return rank


def _of_call(file: File, node: ast.Call, context: Context, held: str, depth: int) -> int | None:
    last = last_name(node.func)
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if last in _KEEPING and owner is not None:
        return _rank(file, owner, context, held, depth)
    if last in _SIZED and owner is not None and not isinstance(file.resolve(owner, context), str):
        return _written(node.args)
    if last == "expand" and owner is not None:
        return _written(node.args)
    if last in _WRAPPING and len(node.args) == 1 and isinstance(node.args[0], ast.Call | ast.Name):
        return _rank(file, node.args[0], context, held, depth)
    return _written(node.args) if last in _MAKING and node.args else None


def _written(sizes: list[ast.expr]) -> int | None:
    """How many sizes are given, one by one or as one tuple; a single expression may stand for several."""
    if len(sizes) == 1:
        only = sizes[0]
        return len(only.elts) if isinstance(only, ast.Tuple | ast.List) and not _starred(only.elts) else None
    return len(sizes) if sizes and not _starred(sizes) else None


def _starred(sizes: list[ast.expr]) -> bool:
    return any(isinstance(size, ast.Starred) for size in sizes)
