"""Attention with several heads: what has its heads before the sequence, `(batch, heads, time, size)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, reaching
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_PRODUCTS = ("torch.matmul", "torch.Tensor.matmul")
_SAME = frozenset(["contiguous", "to", "type_as", "float", "half", "clone"])
_CUTS = frozenset(["chunk", "split", "tensor_split"])
_SWAPS = frozenset([("transpose", "1,2"), ("transpose", "2,1"), ("permute", "0,2,1,3"), ("swapaxes", "1,2")])
_DEPTH = 8


class Held(NamedTuple):
    """An expression where it stands; which item of it is meant (-1: all); how the function around it was entered."""

    file: File
    node: ast.expr
    context: Context
    entered: Entered | None = None
    item: int = -1

    def other(self, node: ast.expr) -> Held:
        return self._replace(node=node, item=-1)


def sizes_before_heads(file: File, node: ast.expr, context: Context) -> list[list[str]]:
    """`[batch, time]` where the tensor was viewed as (batch, time, heads, size) and then had its heads put first.

    So is what attention makes of such values, with the sizes of values and queries. Nothing unless every way leads
    there.
    """
    return _sizes(Held(file, node, context), _DEPTH)


def _sizes(held: Held, depth: int) -> list[list[str]]:
    found: list[list[str]] = []
    for way in _ways(held, depth):
        sizes = _of_expression(way, depth - 1) if depth else []
        if not sizes:
            return []
        found += sizes
    return found


def _ways(held: Held, depth: int) -> Iterator[Held]:
    """The expressions that may be meant, through names, items, arms of a choice and what a call brings."""
    file, node, context, entered, item = held
    if depth == 0:
        return
    if isinstance(node, ast.Name):
        last = latest(file, node, context)
        above = [b for b in reaching(file, node, context) if getattr(b.node, "end_lineno", 0) < node.lineno]
        for binding in [last] if last is not None else above:
            if binding.kind == "param" and isinstance(binding.node, ast.arg):
                given = entered.passed(binding.node.arg) if entered is not None else None
                if given is not None and not given[1] and entered is not None:
                    call = entered.call
                    yield from _ways(Held(call.file, given[0], call.context, entered.outer), depth - 1)
            elif isinstance(binding.value, ast.expr) and binding.kind in ("value", "item"):
                at = binding.item if binding.kind == "item" else item
                yield from _ways(Held(file, binding.value, binding.context, entered, at), depth - 1)
    elif isinstance(node, ast.IfExp):
        for arm in (node.body, node.orelse):
            yield from _ways(held._replace(node=arm), depth - 1)
    elif isinstance(node, ast.Tuple | ast.List) and 0 <= item < len(node.elts):
        yield from _ways(held.other(node.elts[item]), depth - 1)
    elif isinstance(node, ast.GeneratorExp | ast.ListComp) and item >= 0:  # `q, k, v = (split(x) for x in parts)`
        yield from _ways(held.other(node.elt), depth - 1)
    elif isinstance(node, ast.Call) and (function := _function(held, node)) is not None:
        through = Entered(function, Call(file, node, context), entered)
        for returned in returns(function):
            yield from _ways(Held(function.file, returned, function.inner, through, item), depth - 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        yield from _ways(held.other(node.func.value), depth - 1)
    else:
        yield held


def _function(held: Held, node: ast.Call) -> Function | None:
    """The function of the project that is called: `self.split_heads(x)`, and `self.attend(q, k, v)` of a part."""
    named = held.file.resolve(node.func, held.context)
    around = held.file.function_around(held.context)
    if named is None and around is not None and around.cls is not None and isinstance(node.func, ast.Attribute):
        if is_name(node.func.value, around.receiver):
            named = around.cls.find(node.func.attr) or _made_once(around.cls, node.func.attr)
    return named.find("forward") if isinstance(named, Class) else named if isinstance(named, Function) else None


def _made_once(cls: Class, name: str) -> Class | None:
    """The class of the project of `self.attend = Attention(...)`."""
    sets = [assigned for _, assigned in cls.attribute(name)]
    value = sets[0].value if len(sets) == 1 else None
    named = cls.file.resolve(value.func, sets[0].context) if isinstance(value, ast.Call) else None
    return named if isinstance(named, Class) else None


def _of_expression(held: Held, depth: int) -> list[list[str]]:
    node = held.node
    if (stacked := _of_stacked(held, depth)) is not None:
        return [stacked]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _product(held, node.left, node.right, depth)
    if not isinstance(node, ast.Call) or held.item >= 0:
        return []
    named = held.file.resolve(node.func, held.context)
    if named == _ATTENTION:
        value, query = (_argument(node, *place) for place in ((2, "value"), (0, "query")))
        values = _sizes(held.other(value), depth) if value is not None else []
        return values + (_sizes(held.other(query), depth) if values and query is not None else [])
    if named in _PRODUCTS and len(node.args) == 2:
        return _product(held, node.args[0], node.args[1], depth)
    if named == "torch.einsum" and len(node.args) == 3:
        return _sizes(held.other(node.args[2]), depth) if _keeps_order(node.args[0]) else []
    return _swapped(held, node, depth)


def _argument(node: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(node.args) > position:
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _product(held: Held, weights: ast.expr, values: ast.expr, depth: int) -> list[list[str]]:
    """Of `weights @ values`, also with the sizes of the queries that the weights were computed from."""
    found = _sizes(held.other(values), depth)
    return found + (_of_queries(held.other(weights), depth) if found else [])


def _of_queries(held: Held, depth: int) -> list[list[str]]:
    """Of `q` in `softmax(self.drop(q @ k.transpose(-2, -1)) / scale)`."""
    for way in _ways(held, depth):
        node = way.node
        if isinstance(node, ast.BinOp):
            deeper = _sizes if isinstance(node.op, ast.MatMult) else _of_queries
            return deeper(way.other(node.left), depth - 1) if depth else []
        if isinstance(node, ast.Call) and depth:
            if way.file.resolve(node.func, way.context) in _PRODUCTS and node.args:
                return _sizes(way.other(node.args[0]), depth - 1)
            method = isinstance(node.func, ast.Attribute) and node.func.attr in ("softmax", "masked_fill", "mul", "div")
            first = node.func.value if method and isinstance(node.func, ast.Attribute) else None
            library = isinstance(way.file.resolve(node.func, way.context), str)
            first = node.args[0] if node.args and (library or first is None) else first
            return _of_queries(way.other(first), depth - 1) if first is not None else []
    return []


def _keeps_order(equation: ast.expr) -> bool:
    """Whether `"bhqk,bhkd->bhqd"` keeps batch and heads in front, and what values have behind."""
    text = equation.value.replace(" ", "") if isinstance(equation, ast.Constant) and type(equation.value) is str else ""
    match = re.fullmatch(r"(\w)(\w)(\w)(\w),(\w{4})->(\w{4})", text)
    return match is not None and match[5] == match[1] + match[2] + match[4] + match[6][3] == match[6][:2] + match[5][2:]


def _of_stacked(held: Held, depth: int) -> list[str] | None:
    """`q, k, v = x.reshape(b, t, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)`, or `q = stacked[0]` of such."""
    node = held.node
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        whole = held.other(node.value)
    elif held.item >= 0:
        whole = held.other(node)
    else:
        return None
    made = list(_ways(whole, depth))
    node = made[0].node if len(made) == 1 else node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unbind":
        made = list(_ways(made[0].other(node.func.value), depth)) if made else []
        node = made[0].node if len(made) == 1 else node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "permute":
        return None
    sizes = _viewed(made[0].other(node.func.value), depth) if made else []
    order = ",".join(ast.unparse(arg) for arg in node.args)
    return sizes[0][:2] if len(sizes) == 1 and len(sizes[0]) == 5 and order == "2,0,3,1,4" else None


def _swapped(held: Held, node: ast.Call, depth: int) -> list[list[str]]:
    """`x.view(b, t, heads, size).transpose(1, 2)`, `....permute(0, 2, 1, 3)`."""
    func = node.func
    order = re.sub(r"[()\s]", "", ",".join(ast.unparse(arg) for arg in node.args))
    if not isinstance(func, ast.Attribute) or node.keywords or (func.attr, order) not in _SWAPS:
        return []
    found = _viewed(held.other(func.value), depth)
    # of one size, either may be the sequence
    return [sizes[:2] for sizes in found] if all(len(s) == 4 and s[1] != s[2] for s in found) else []


def _viewed(held: Held, depth: int) -> list[list[str]]:
    """The sizes that it is viewed with, on every way; what is cut along the last dimension keeps the others."""
    found = []
    for way in _ways(held, depth):
        node = way.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CUTS:
            last = _argument(node, 1, "dim")
            if way.item < 0 or last is None or ast.unparse(last) != "-1" or not depth:
                return []
            found += _viewed(way.other(node.func.value), depth - 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and way.item < 0:
            asked = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) else node.args
            if node.func.attr not in ("view", "reshape"):
                return []
            found.append([size_text(size) for size in asked])
        else:
            return []
    return found


def size_text(size: ast.expr) -> str:
    """A size as written, whatever tensor is asked: `x.size(0)` and `query.shape[0]` are one."""
    return re.sub(r"\w+\.(?:size\((\d)\)|shape\[(\d)\])", r"\1\2:", ast.unparse(size))
