"""Losses over all nodes of a graph, where the same labels are held out by a mask for the test."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import Iteration, iteration_of
from mlcheck.lint.sites.lines import Lines, all_lines
from mlcheck.lint.sites.project import Sites

_HELD_OUT = pattern(r"test|val")
_HELD_OUT_MASK = pattern(r"test_mask|mask_test|(?:idx|index)_test|test_(?:idx|index)|_mask\b.*['\"]test['\"]")
_LOSSES = pattern(r"cross_entropy|nll_loss|criterion|loss_f")


def unmasked(sites: Sites) -> Iterator[Finding]:
    """`loss = nll_loss(model(x, edges), y)`, `loss.backward()`, and for the test `y[test_mask]`."""
    for file in sites.mentioning(["test_mask", "idx_test", "test_idx", "mask_test", "test_index", "_mask"]):
        if ".backward(" in file.text and "torch" in file.text:
            picked = _picked(file)
            for lines in all_lines(file) if picked else ():
                for call in lines.all(ast.Call) if ".backward(" in lines.text else ():
                    found = _found(lines, call, picked)
                    if found is not None:
                        yield Finding(
                            f"This loss is over all of `{ast.unparse(call.args[1])}`, and a part of it is held out "
                            "for the test: the model is trained on the labels that it is tested on",
                            file.place(call, lines.context).location,
                            help="pick the training samples in both: `loss(output[train_mask], labels[train_mask])`",
                            related=(file.place(found, lines.context).location,),
                        )


def _picked(file: File) -> dict[str, ast.Subscript]:
    """`y[test_mask]`, by the text of `y`."""
    found: dict[str, ast.Subscript] = {}
    for node in walk(file.module.source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            if isinstance(node.slice, ast.Name | ast.Attribute) and _HELD_OUT.search(last_name(node.slice)):
                if isinstance(node.value, ast.Name | ast.Attribute):
                    found.setdefault(ast.unparse(node.value), node)
    for turn, inside in _loops(file):
        masks = {part.id for part in walk(turn.brought) if isinstance(part, ast.Name)}
        picks = [node for node in inside if isinstance(node, ast.Subscript) and last_name(node.slice) in masks]
        for node in picks if picks and _HELD_OUT_MASK.search(_written(file, turn.over)) else ():
            if isinstance(node.value, ast.Name | ast.Attribute):
                found.setdefault(ast.unparse(node.value), node)
    return found


def _loops(file: File) -> Iterator[tuple[Iteration, list[ast.AST]]]:
    """The loops and comprehensions of a file, with what stands in them."""
    for node in walk(file.module.source.tree):
        for loop in [node] if isinstance(node, ast.For) else getattr(node, "generators", ()):
            yield iteration_of(loop), walk(node)


def _written(file: File, over: ast.expr) -> str:
    """The text of what a loop goes over, with what the file gives its name."""
    names = {part.id for part in walk(over) if isinstance(part, ast.Name)}
    lines = [node for node in walk(file.module.source.tree) if isinstance(node, ast.Assign)]
    given = [line.value for line in lines if any(last_name(target) in names for target in line.targets)]
    return " ".join(map(ast.unparse, (over, *given)))


def _found(lines: Lines, call: ast.Call, picked: dict[str, ast.Subscript]) -> ast.Subscript | None:
    if not _LOSSES.search(last_name(call.func)) or len(call.args) != 2 or call.keywords:
        return None
    scores, labels = call.args
    held = picked.get(ast.unparse(labels))
    if held is None or not isinstance(scores, ast.Name | ast.Call) or _comes_in_batches(lines, labels):
        return None
    names = [
        target.id
        for line in lines.all(ast.Assign)
        if line.value is call
        for target in line.targets
        if isinstance(target, ast.Name)
    ]
    backward = any(node.attr == "backward" and last_name(node.value) in names for node in lines.all(ast.Attribute))
    return held if backward and not _is_masked(lines, scores) and not _is_picked_of(lines, names) else None


def _is_picked_of(lines: Lines, losses: list[str]) -> bool:
    """`loss[train_mask].mean()` and `(loss * mask).sum()`: one loss a node, and only some of them count."""
    weighed = (
        side
        for node in lines.all(ast.BinOp)
        if isinstance(node.op, ast.Mult) and not isinstance(node.left, ast.Constant)
        for side in ((node.left, node.right) if not isinstance(node.right, ast.Constant) else ())
    )
    picked = (node.value for node in lines.all(ast.Subscript))
    return any(isinstance(each, ast.Name) and each.id in losses for each in (*picked, *weighed))


def _comes_in_batches(lines: Lines, labels: ast.expr) -> bool:
    root = labels
    while isinstance(root, ast.Attribute):
        root = root.value
    name = last_name(root)
    return any(is_name(part, name) for loop in lines.all(ast.For) for part in walk(loop.target))


def _is_masked(lines: Lines, scores: ast.expr) -> bool:
    """Whether the scores, or the labels by another line, are picked before."""
    for line in lines.all(ast.Assign):
        if any(ast.unparse(target) == ast.unparse(scores) for target in line.targets):
            if isinstance(line.value, ast.Subscript):
                return True
    return False
