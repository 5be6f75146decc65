"""Overlaps with a mask that a training makes small: the coefficient is in the loss, not what it lacks of 1."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, reads_of, stores_of, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.overlaps import is_named_overlap
from mlcheck.lint.sites.layers.signs_in_sums import parents
from mlcheck.lint.sites.lines import Lines, all_lines
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.training.signs import Signs

OVERLAPS = ("dice", "Dice", "iou", "IoU", "accard", "versky")
_FROM_ONE = pattern(r"\b1(?:\.0*)? - |\bones\w*\([^\n]*\) - |-=|maximi[sz]e|\brsub\b|\*= ?-|neg\(|log\(")
_SHARED = pattern(r"inter|overlap|shared|common|\btp\b|true_pos|\* ?\w*targ|\* ?\w*mask|\* ?\w*label", re.IGNORECASE)
_TARGET = pattern(r"mask|target|label|truth|(?:^|_)(?:gt|y|seg|tgt|annotations?)(?:_|$)", re.IGNORECASE)
_STEPS = 3


class Lowered(NamedTuple):
    """The call whose result is minimised, and the function that computes the overlap."""

    call: Call
    overlap: Function


def lowered_overlaps(sites: Sites) -> Iterator[Lowered]:
    """`loss = bce(out, mask) + dice(out, mask)`, where `dice` returns `2 * shared / total`."""
    for file in sites.mentioning(OVERLAPS) if sites.uses_torch else ():
        for lines in all_lines(file):
            for node in filter(_is_with_target, lines.all(ast.Call)):
                run = run_by(file, node.func, lines.context)
                if run is not None and _is_coefficient(run.function) and _is_minimised(lines, node):
                    yield Lowered(Call(file, node, lines.context), run.function)


def _is_with_target(call: ast.Call) -> bool:
    """Whether one of the two is what the other is to become: of two predictions the overlap may have to be small."""
    named = [_TARGET.search(last_name(arg.value if isinstance(arg, ast.Subscript) else arg)) for arg in call.args[:2]]
    return len(named) == 2 and named.count(None) == 1


def _is_coefficient(function: Function) -> bool:
    """Whether a share is returned as it is: nothing is taken from 1, and nothing is negative."""
    if not is_named_overlap(function) or _FROM_ONE.search(function.text):
        return False
    if any(isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and _is_value(n) for n in function.nodes):
        return False
    answers = [node.value for node in function.all(ast.Return) if node.value is not None]
    return len(answers) == 1 and _is_share(function, answers[0])


def _is_value(negative: ast.UnaryOp) -> bool:
    """Not `-1`, which is a dimension."""
    return not isinstance(negative.operand, ast.Constant)


def _is_share(function: Function, answer: ast.expr) -> bool:
    """`(2 * shared + smooth) / (total + smooth)`, its mean, or a name for it."""
    node, _ = source(function.file, answer, function.inner)
    for _ in range(_STEPS):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="mean" | "sum"), args=[inner, *_]):
                pass
            case ast.Call(func=ast.Attribute(value=inner, attr="mean" | "sum")):
                pass
            case _:
                break
        node, _ = source(function.file, inner, function.inner)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return _is_share(function, node.left)  # `iou - gap / hull`, of boxes
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or isinstance(node.right, ast.Constant):
        return False
    above, _ = source(function.file, node.left, function.inner)
    differs = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in walk(above))
    return not differs and bool(_SHARED.search(f"{ast.unparse(node.left)} {ast.unparse(above)}"))


def _is_minimised(lines: Lines, call: ast.Call) -> bool:
    """Whether it is part of what is differentiated, or of what a function of losses returns, with a plus."""
    signs = Signs(lines, lambda node: isinstance(node, ast.Constant | ast.Name | ast.Attribute))
    entered = signs.of(call)
    if entered:
        return all(way.sign == 1 for way in entered) and "maximize" not in lines.file.text
    return lines.function is not None and _is_loss(lines.function) and _is_added(lines, call)


def _is_loss(function: Function) -> bool:
    name = function.cls.name if function.name == "forward" and function.cls is not None else function.name
    return "loss" in name.lower() or "criterion" in name.lower()


def _is_added(lines: Lines, call: ast.Call) -> bool:
    """`return bce + 0.5 * dice(out, mask)`, also by way of names: `overlap = dice(out, mask).mean()`."""
    above = parents(lines.nodes)
    node: ast.AST | None = call
    summed, names = False, set[str]()
    while node is not None:
        match node := above.get(id(node)):
            case ast.Return():
                return summed
            case ast.Attribute(attr="mean" | "sum"):
                node = above.get(id(node))
            case ast.Assign(targets=[ast.Name(id=name)]) if name not in names:
                names.add(name)
                stores, reads = (found(lines.all(ast.Name), name) for found in (stores_of, reads_of))
                node = reads[0] if len(stores) == len(reads) == 1 else None
            case ast.BinOp(op=ast.Add()):
                summed = True
            case ast.BinOp(op=ast.Mult()):
                pass
            case _:
                return False
    return False
