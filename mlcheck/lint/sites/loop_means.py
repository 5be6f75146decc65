"""A sum over the batches of a loop that is divided by their number."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_length, walk
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Function


def mean_over_loop(function: Function, name: str, before: int) -> ast.AST | None:
    """The one division by which the variable becomes the mean over the batches, after the loop and before a line."""
    found: list[ast.AST] = []
    for loop in (node for node in function.nodes if isinstance(node, ast.For)):
        if any(isinstance(node, ast.Continue | ast.Break) for node in walk(loop)):
            continue  # not each batch is counted: another rank may take the others
        sums = {_summed(node) for node in walk(loop)}
        for node in function.nodes:
            total, number = _division(node, name)
            if total and total in sums and number is not None and _counts(number, loop):
                if (loop.end_lineno or 0) < getattr(node, "lineno", 0) < before:
                    found.append(node.value if isinstance(node, ast.Assign) else node)
            elif (kept := _mean_of_kept(node, name)) and kept in {_filled(each) for each in walk(loop)}:
                if (loop.end_lineno or 0) < getattr(node, "lineno", 0) < before:
                    found.append(node)
    return found[0] if len(found) == 1 else None


def _summed(node: ast.AST) -> str:
    """`total` of `total += loss`."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
            return name
    return ""


def _filled(node: ast.AST) -> str:
    """`losses` of `losses.append(loss)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
            return name
    return ""


def _mean_of_kept(node: ast.AST, name: str) -> str:
    """`losses` of `name = torch.stack(losses).mean()` and `name = torch.tensor(losses).mean()`."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Call(func=ast.Attribute(attr="stack" | "tensor"), args=[ast.Name(id=kept), *_]),
                    attr="mean",
                ),
                args=[],
            ),
        ) if target == name:
            return kept
    return ""


def _division(node: ast.AST, name: str) -> tuple[str, ast.expr | None]:
    """What is divided into the variable, and by what: `name /= n`, `name = total / n`."""
    match node:
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Div(), value=number) if target == name:
            return name, number
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.BinOp(left=ast.Name(id=total), op=ast.Div(), right=number)
        ) if target == name:
            return total, number
    return "", None


def _counts(number: ast.expr, loop: ast.For) -> bool:
    """`len(loader)` of what the loop runs over, itself or numbered."""
    if not is_length(number) or not isinstance(number, ast.Call) or not number.args:
        return False
    return ast.dump(number.args[0]) == ast.dump(iteration_of(loop).over)
