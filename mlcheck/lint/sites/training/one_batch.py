"""Functions and loops that train on one batch at a time: gradients that each clears, and a step after several alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.facts import Place
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites


class Cleared(NamedTuple):
    """The clearing of a call, and the step of some calls."""

    clearing: Place
    step: Place


def cleared_each_call(sites: Sites) -> Iterator[Cleared]:
    """`zero_grad()`, a backward pass, and then `if step % n == 0: optimizer.step()`, whatever optimizer that is."""
    for file in sites.mentioning(["zero_grad"]):
        for function in file.functions:
            if "zero_grad" in function.text:
                for block in _blocks(function.node.body):
                    yield from _in_block(function, block)


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for line in body:
        if isinstance(line, ast.If | ast.With | ast.For):
            yield from _blocks(line.body)
            yield from _blocks(line.orelse if isinstance(line, ast.If) else [])


def _in_block(function: Function, block: list[ast.stmt]) -> Iterator[Cleared]:
    for number, line in enumerate(block):
        owner = owner_of(line, "zero_grad")
        later = block[number + 1 :] if owner else []
        step = next((each for each in later if _steps(each, owner)), None)
        if isinstance(step, ast.If) and not step.orelse:
            between = later[: later.index(step)]
            if any(_goes_back(each) for each in between) and _is_of_one_batch(function, step.test):
                yield Cleared(function.place(line), function.place(step))


def owner_of(line: ast.stmt, method: str) -> str:
    """`optimizer` of the statement `optimizer.zero_grad()`."""
    call = line.value if isinstance(line, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return ast.unparse(func.value) if isinstance(func, ast.Attribute) and func.attr == method else ""


def _steps(line: ast.stmt, owner: str) -> bool:
    text = ast.unparse(line)
    return f"{owner}.step(" in text or f".step({owner}" in text


def _goes_back(line: ast.stmt) -> bool:
    return not isinstance(line, ast.For | ast.While) and "backward(" in ast.unparse(line)


def _is_of_one_batch(function: Function, test: ast.expr) -> bool:
    """Whether what is asked counts calls: the count of Lightning's batches, or the number that divides the loss."""
    counted = _counted(function, test)
    if counted is None:
        return False
    if function.name == "training_step" and function.cls is not None and "batch" in ast.unparse(counted):
        return True
    every = ast.unparse(counted.right)
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.right) == every
        for node in function.nodes
    )


def _counted(function: Function, test: ast.expr) -> ast.BinOp | None:
    """`step % every` of `step % every == 0`, which may have a name."""
    if isinstance(test, ast.Name):
        bound = function.file.bindings(test.id, function.inner)
        value = bound[0].value if len(bound) == 1 else None
        return _counted(function, value) if isinstance(value, ast.Compare) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    return test.left if isinstance(test.left, ast.BinOp) and isinstance(test.left.op, ast.Mod) else None
