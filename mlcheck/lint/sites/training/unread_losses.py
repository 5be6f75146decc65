"""Losses and penalties worked out by hand, before a backward pass, that nothing ever reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, loads, walk
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites

_NAMED = pattern(r"(?:^|_)(?:loss|penalty|reg|regulari[sz]ation|regulari[sz]er|kld?|gp)(?:$|_)")
_RECORD = pattern(r"(?:^|_)(?:val|valid|validation|test|eval|train|epoch|avg|mean|running|old|prev|best|log|no)(?:_|$)")
_CUT = (".item(", ".detach(", "float(", ".data", ".cpu(", ".numpy(", ".tolist(", "tensor(", "np.", "numpy.")
_ELSEWHERE = ("locals()", "globals()", "vars()")
_REDUCTIONS = frozenset(["mean", "sum", "norm", "pow", "logsumexp"])


class Unread(NamedTuple):
    """Where a loss is worked out, its name, and the backward pass that it is not part of."""

    made: Place
    name: str
    backward: Place


def unread_losses(sites: Sites) -> Iterator[Unread]:
    """`penalty = weight * (norm - 1).pow(2).mean()`, and then `loss.backward()` without it."""
    for file in sites.mentioning([".backward("]):
        if any(word in file.text for word in _ELSEWHERE):
            continue
        for backward in file.calls("backward"):
            function = backward.function
            if function is not None and isinstance(backward.node.func, ast.Attribute):
                yield from _unread(function, backward)


def _unread(function: Function, backward: Call) -> Iterator[Unread]:
    assert isinstance(backward.node.func, ast.Attribute)
    around = backward.loops[0].node if backward.loops else function.node
    trained = {part.id for part in walk(backward.node.func.value) if isinstance(part, ast.Name)}
    lines = [n for n in function.nodes if isinstance(n, ast.Assign) and n.lineno < backward.node.lineno]
    for line in lines:
        name = line.targets[0].id if isinstance(line.targets[0], ast.Name) and len(line.targets) == 1 else ""
        if not _NAMED.search(name) or _RECORD.search(name) or line not in walk(around):
            continue
        if any(loads(line.value, each) for each in trained) or not _is_worked_out(function, line.value):
            continue
        if _is_alone(function, name) and not _is_without_gradient(function, line):
            yield Unread(function.place(line.value), name, backward.place)


def _is_alone(function: Function, name: str) -> bool:
    """Whether the name is given once, and neither read nor deleted nor shared."""
    stores = 0
    for node in walk(function.node):
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return False
        if is_name(node, name):
            if not isinstance(node.ctx, ast.Store):
                return False
            stores += 1
    return stores == 1


def _is_worked_out(function: Function, value: ast.expr) -> bool:
    """A mean or sum of tensors in some arithmetic, or what a function of the project answers that is called a loss."""
    if any(word in ast.unparse(value) for word in _CUT):
        return False
    if isinstance(value, ast.BinOp):
        return _is_worked_out(function, value.left) or _is_worked_out(function, value.right)
    if isinstance(value, ast.UnaryOp):
        return _is_worked_out(function, value.operand)
    if not isinstance(value, ast.Call):
        return False
    named = function.file.resolve(value.func, function.inner)
    if isinstance(named, Function):
        return bool(_NAMED.search(named.name))
    reduces = last_name(value.func) in _REDUCTIONS and isinstance(value.func, ast.Attribute)
    return reduces and (named is None or (isinstance(named, str) and named.startswith("torch.")))


def _is_without_gradient(function: Function, line: ast.Assign) -> bool:
    """In a block of `torch.no_grad()`, or of a `try` that may be there for its errors."""
    for node in function.nodes:
        if isinstance(node, ast.With) and any("no_grad" in ast.unparse(item) for item in node.items):
            if line in walk(node):
                return True
        if isinstance(node, ast.Try) and line in walk(node):
            return True
    return "no_grad" in " ".join(map(ast.unparse, function.node.decorator_list))
