"""Labels that are another name of the input ids, and get the number that losses ignore."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.straight import read_after, rebound_between

_LABELS = pattern(r"label|target|lm_")
_INPUTS = pattern(r"input_?ids|^inputs?$|^ids$|tokens?$")


class Ignored(NamedTuple):
    """The line that gives the labels their name, the one that writes into them, and where the inputs are read."""

    line: ast.Assign
    write: ast.Assign
    read: ast.Name
    labels: str
    inputs: str


def ignored_in_both(function: Function) -> Iterator[Ignored]:
    """`labels = input_ids`, `labels[:n] = -100`, and `input_ids` after that."""
    if "-100" not in function.text and "ignore" not in function.text.lower():
        return
    for line in function.all(ast.Assign):
        match line:
            case ast.Assign(targets=[ast.Name(id=labels)], value=value) if _LABELS.search(labels.lower()):
                pass
            case _:
                continue
        held, inputs = _held(value)
        write = _written(function, labels, line.lineno) if inputs else None
        if write is None or not _INPUTS.search(inputs.lower()) or held == labels:
            continue
        read = read_after(function.node, _outermost(function, write), held)
        if read is not None and not any(rebound_between(function.node, line, write, name) for name in (labels, held)):
            yield Ignored(line, write, read, labels, ast.unparse(value))


def _held(value: ast.expr) -> tuple[str, str]:
    """The variable that holds the inputs, and what they are called: `ids`, `batch["input_ids"]`, `batch.input_ids`."""
    match value:
        case ast.Name(id=name):
            return name, name
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
            return name, key
        case ast.Attribute(value=ast.Name(id=name), attr=key) if name != "self":
            return name, key
    return "", ""


def _written(function: Function, labels: str, after: int) -> ast.Assign | None:
    """`labels[mask] = -100`, or the same of each row in a loop over them."""
    rows = {labels}
    for loop in function.all(ast.For):
        if loop.lineno > after and any(is_name(part, labels) for part in walk(loop.iter)):
            over = loop.iter.args if isinstance(loop.iter, ast.Call) else []
            targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
            if isinstance(loop.iter, ast.Name):
                over, targets = [loop.iter], [loop.target]
            for given, target in zip(over, targets, strict=False):
                if is_name(given, labels) and isinstance(target, ast.Name):
                    rows.add(target.id)
    for node in function.all(ast.Assign):
        target = node.targets[0]
        if node.lineno > after and isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            if target.value.id in rows and _is_ignored(node.value):
                return node
    return None


def _is_ignored(value: ast.expr) -> bool:
    return ast.unparse(value) == "-100" or "ignore" in ast.unparse(value).lower()


def _outermost(function: Function, write: ast.Assign) -> ast.stmt:
    """The loop that the write stands in, if it stands in one."""
    around = [loop for loop in function.all(ast.For) if any(node is write for node in walk(loop))]
    return min(around, key=lambda loop: loop.lineno) if around else write
