"""Distributions of a distillation: which of the two is softened by the temperature that the loss is scaled up for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.tensors import activation
from mlcheck.lint.sites.lines import all_lines
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_KEEPS = ("detach", "float", "clone", "contiguous", "to", "double")
_DIVERGENCES = ("kl_div", "KLDivLoss", "log_softmax", "LogSoftmax")
_DEPTH = 4


class Hard(NamedTuple):
    """The distribution that is not softened, that of the other one, and the temperature."""

    place: Place
    other: Place
    temperature: str


def softened_alone(sites: Sites) -> Iterator[Hard]:
    """`kl_div(log_softmax(s / T), softmax(t)) * T ** 2`: scaled up for two softened distributions, and only one is."""
    for file in sites.mentioning(_DIVERGENCES):
        for lines in all_lines(file):
            for node in lines.all(ast.BinOp):
                temperature, losses = _scaled(node)
                for loss in losses if temperature else ():
                    yield from _one_side(file, loss, lines.context, temperature)


def _scaled(node: ast.BinOp) -> tuple[str, list[ast.expr]]:
    """`T`, and `loss`, of `loss * T ** 2`, `loss * (weight * T * T)` and `T * T * loss`."""
    factors = list(_factors(node))
    plain = [ast.unparse(each) for each in factors if isinstance(each, ast.Name | ast.Attribute)]
    twice = [name for name in plain if plain.count(name) == 2]
    squared = [name for each in factors if (name := _squared(each))]
    return next(iter([*twice, *squared]), ""), [each for each in factors if isinstance(each, ast.Call | ast.UnaryOp)]


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _squared(node: ast.expr) -> str:
    """`T` of `T ** 2` and `pow(T, 2)`."""
    match node:
        case ast.BinOp(left=inner, op=ast.Pow(), right=ast.Constant(value=2 | 2.0)):
            pass
        case ast.Call(func=ast.Name(id="pow") | ast.Attribute(attr="pow"), args=[inner, ast.Constant(value=2)]):
            pass
        case _:
            return ""
    return ast.unparse(inner) if isinstance(inner, ast.Name | ast.Attribute) else ""


def _one_side(file: File, loss: ast.expr, context: Context, temperature: str) -> Iterator[Hard]:
    found = {id(node): (node, scores, where) for node, scores, where in _distributions(file, loss, context, _DEPTH)}
    if len(found) != 2:
        return
    sides = [(file.place(node, where), _by(file, scores, where)) for node, scores, where in found.values()]
    for (place, by), (other, softened) in (sides, sides[::-1]):
        if by == "1" and softened == temperature:
            yield Hard(place, other, temperature)


def _distributions(
    file: File, node: ast.expr, context: Context, depth: int
) -> Iterator[tuple[ast.expr, ast.expr, Context]]:
    """The softmaxes that an expression is computed from, with their scores, through plain names."""
    for part in (each for each in walk(node) if isinstance(each, ast.expr)):
        made, where = source(file, part, context) if isinstance(part, ast.Name) else (part, context)
        found = activation(file, made, where) if isinstance(made, ast.Call) else None
        if found is not None and found[0] in ("softmax", "log_softmax"):
            yield made, found[1], found[2]
        elif made is not part and depth > 0:
            yield from _distributions(file, made, where, depth - 1)


def _by(file: File, scores: ast.expr, context: Context) -> str:
    """What scores are divided by: "1" of what a model gave, "" where that is not known."""
    node, context = source(file, before_methods(scores, _KEEPS), context)
    node = before_methods(node, _KEEPS)
    match node:
        case ast.BinOp(op=ast.Div(), right=ast.Name() | ast.Attribute() as by):
            return ast.unparse(by)
        case ast.Name() | ast.Attribute():
            return "1" if _is_given(file, node, context) else ""
        case ast.Call(func=func):
            return "1" if file.resolve(func, context) is None else ""
    return ""


def _is_given(file: File, node: ast.Name | ast.Attribute, context: Context) -> bool:
    """Whether the scores are a parameter that nothing has changed, or an output of a model."""
    if isinstance(node, ast.Attribute):
        return True
    bound = file.bindings(node.id, context)
    handed = [each.node for each in origins(file, node, context)]
    changed = any(isinstance(each, ast.BinOp) for each in handed)
    return len(bound) == 1 and bound[0].kind in ("param", "item") and not changed
