"""Losses of hard decisions: predictions that are cut at a threshold, or to their largest, before they are compared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.project import Sites

_ACTIVATIONS = ("sigmoid", "softmax", "Sigmoid", "Softmax")
_DECIDES = ("argmax", "round", "round_", "topk", "sign", "heaviside", "gt", "ge", "lt", "le")
_ASKED = ("shape", "size", "device", "dtype", "dim", "ndim", "numel", "new_zeros", "new_ones")
_SUMS = ("sum", "mean", "float", "view", "reshape", "flatten", "squeeze", "unsqueeze", "to", "long", "int", "type")


class Hard(NamedTuple):
    """The line that decides, and the parameter of the loss that no gradient reaches for it."""

    function: Function
    line: ast.stmt
    name: str


def hard_losses(sites: Sites) -> Iterator[Hard]:
    """`pred = (torch.sigmoid(logits) > 0.5).float()`, and a loss that knows the logits by `pred` alone."""
    for file in sites.mentioning(["sigmoid(", "softmax("]):
        for function in file.functions:
            named = function.cls.name if function.cls is not None and function.name == "forward" else function.name
            if "loss" in named.lower() and (found := _decided(function)) is not None:
                yield found


def _decided(function: Function) -> Hard | None:
    names = [name for name in function.parameters if name != function.receiver]
    given = list(returns(function))
    inner = (node for node in function.nodes if node is not function.node)
    if len(names) != 2 or not given or any(isinstance(node, ast.Lambda | ast.FunctionDef) for node in inner):
        return None
    predicted, target = names
    line = next((line for line in function.node.body if _decides(line, predicted)), None)
    if line is None or not isinstance(line, ast.Assign) or not _is_plain(function, target, line):
        return None
    alive = _alive(function, predicted)
    dead = not any(_reads(node, alive) for node in given) and all(_is_counted(node) for node in given)
    if not dead or target not in _reached(function, given) or not _is_trained_with(function):
        return None
    return Hard(function, line, predicted)


def _is_trained_with(function: Function) -> bool:
    """Whether a file that makes or calls it runs a backward pass."""
    cls = function.cls
    if cls is None:
        return any(".backward(" in call.file.text for call in callers(function.file.sites, function))
    for file in function.file.sites.mentioning([cls.name]):
        made = file.calls(cls.name, *file.walk.aliases.get(cls.name, ()))
        if ".backward(" in file.text and any(file.resolve(call.node.func, call.context) is cls for call in made):
            return True
    return False


def _decides(line: ast.stmt, name: str) -> bool:
    """Whether the line activates the predictions, or takes what is activated, and decides."""
    return isinstance(line, ast.Assign) and any(_is_decision(node) for node in walk(line.value))


def _is_decision(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.Gt | ast.GtE | ast.Lt | ast.LtE) for op in node.ops)
    return isinstance(node, ast.Call) and last_name(node.func) in _DECIDES


def _alive(function: Function, name: str) -> set[str]:
    """The names that a gradient of the parameter still runs through."""
    found = {name}
    for _ in range(len(function.node.body) + 1):
        for line in function.nodes:
            if isinstance(line, ast.Assign | ast.AugAssign) and _reads(line.value, found):
                targets = line.targets if isinstance(line, ast.Assign) else [line.target]
                found |= {part.id for each in targets for part in walk(each) if isinstance(part, ast.Name)}
    return found


def _reads(node: ast.AST, names: set[str]) -> bool:
    """Whether the value depends on one of the names, decisions and questions about shapes left out."""
    if _is_decision(node):
        return False
    if isinstance(node, ast.Attribute) and node.attr in _ASKED:
        return False
    if isinstance(node, ast.Call) and last_name(node.func) in ("detach", "item", "len", *_ASKED):
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(_reads(child, names) for child in ast.iter_child_nodes(node))


def _reached(function: Function, given: list[ast.expr]) -> set[str]:
    """All names that what is returned was computed from."""
    found = {part.id for node in given for part in walk(node) if isinstance(part, ast.Name)}
    for line in reversed([node for node in function.nodes if isinstance(node, ast.Assign)]):
        if any(isinstance(part, ast.Name) and part.id in found for each in line.targets for part in walk(each)):
            found |= {part.id for part in walk(line.value) if isinstance(part, ast.Name)}
    return found


def _is_plain(function: Function, target: str, line: ast.Assign) -> bool:
    """Whether the activated predictions alone are decided on, and no other loss has a part in it."""
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    activations = [call for call in calls if last_name(call.func) in _ACTIVATIONS]
    own = (*_ACTIVATIONS, *_DECIDES, *_SUMS, *_ASKED)
    return (
        len(activations) == 1
        and not any(is_name(node, target) for node in walk(activations[0]))
        and not any(is_name(node, target) for node in walk(line.value))
        and all(last_name(call.func) in own for call in calls)
    )


def _is_counted(node: ast.expr) -> bool:
    """`1 - (2 * inter + 1) / (total + 1)`: something that is computed."""
    return not isinstance(node, ast.Constant | ast.Dict)
