"""Two names of one tensor, of which one is written to: the other is read after that, or held against it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.layers.overwriting import Overwriting, overwritings
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.straight import blocks_around, read_after, rebound_between

_LOSSES = ("loss", "criterion", "mse", "l1", "huber")
_TENSORS = frozenset(["backward", "detach", "requires_grad", "grad_fn", "data", "unsqueeze", "cuda", "clone"])
_COMPUTED = ("torch.nn.functional.", "torch.autograd.", "torch.linalg.")


def added_to_both(function: Function) -> Iterator[Finding]:
    """`loss = nll`, `loss += penalty`, and `nll.item()`, in which the penalty is too."""
    for change in overwritings(function):
        if not isinstance(change.node, ast.AugAssign) or _is_nothing(change.node.value):
            continue
        for line, other in _named_before(function, change):
            later = read_after(function.node, change.node, other)
            if later is None or not _is_tensor(function, (change.name, other)):
                continue
            yield Finding(
                f"This changes `{change.name}` in place, and with it `{other}`, which is the same tensor",
                function.place(change.node).location,
                help=f"`{change.name} = {change.name} {_sign(change.node)} ...`, which makes a new tensor",
                related=(function.place(line).location, function.place(later).location),
            )
            break


def _named_before(function: Function, change: Overwriting) -> Iterator[tuple[ast.Assign, str]]:
    """The lines that gave the changed tensor a second name, and that name.

    In a module, whose values are tensors, those that were bound to the changed name are asked for elsewhere.
    """
    forwards = function.cls is not None and is_module(function.cls) and function.name != "__init__"
    for line in function.all(ast.Assign):
        if len(line.targets) != 1 or line.lineno >= change.node.lineno:
            continue
        target = line.targets[0]
        if not isinstance(target, ast.Name) or not isinstance(line.value, ast.Name) or target.id == line.value.id:
            continue
        if change.name == target.id or (change.name == line.value.id and not forwards):
            other = line.value.id if change.name == target.id else target.id
            if not any(rebound_between(function.node, line, change.node, name) for name in (change.name, other)):
                yield line, other


def _is_tensor(function: Function, names: tuple[str, str]) -> bool:
    """Whether one of the names is used as only a tensor is, or given what a function of torch computes."""
    for node in function.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in names and node.attr in _TENSORS:
                return True
        elif isinstance(node, ast.Assign | ast.AugAssign) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id in names:
                named = function.file.resolve(node.value.func, function.inner)
                if isinstance(named, str) and named.startswith(_COMPUTED):
                    return True
    return False


def _is_nothing(node: ast.expr) -> bool:
    """`0.0 * x`, which keeps a parameter in the graph and adds nothing."""
    return isinstance(node, ast.BinOp) and any(
        isinstance(side, ast.Constant) and side.value == 0 for side in (node.left, node.right)
    )


def _sign(node: ast.AugAssign) -> str:
    return ast.unparse(node).split("=")[0].split()[-1]


def held_against_itself(function: Function) -> Iterator[Finding]:
    """`target = values`, `target[rows, actions] = wanted`, and `mse_loss(values, target)`, which is nought."""
    calls, lines = function.all(ast.Call), function.all(ast.Assign)
    for line in lines:
        target = line.targets[0] if len(line.targets) == 1 else None
        if not isinstance(target, ast.Name) or not isinstance(line.value, ast.Name):
            continue
        names = (target.id, line.value.id)
        written = [node for node in lines if _writes(node, names) and node.lineno > line.lineno]
        block = blocks_around(function.node, line)[-1:]
        compared = next((node for node in calls if _compares(node, names)), None)
        if not written or compared is None or names[0] == names[1] or compared.lineno <= written[0].lineno:
            continue
        if any(rebound_between(function.node, line, compared, name) for name in names):
            continue
        if any(any(part is compared for part in walk(statement)) for inner in block for statement in inner):
            yield Finding(
                f"`{names[0]}` and `{names[1]}` are one tensor: what is written into it changes both, and "
                f"line {compared.lineno} compares it with itself",
                function.place(line).location,
                help=f"`{names[0]} = {names[1]}.detach().clone()`",
                related=(function.place(written[0]).location, function.place(compared).location),
            )


def _writes(node: ast.AST, names: tuple[str, str]) -> TypeGuard[ast.Assign]:
    """`target[rows, actions] = ...`; what is written by a word goes into a dictionary."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index)]):
            return name in names and not isinstance(index, ast.Constant | ast.JoinedStr)
    return False


def _compares(node: ast.Call, names: tuple[str, str]) -> bool:
    """A loss of the two."""
    if len(node.args) < 2:
        return False
    called = ast.unparse(node.func).lower()
    given = [arg.id if isinstance(arg, ast.Name) else "" for arg in node.args[:2]]
    return set(given) == set(names) and any(word in called for word in _LOSSES)
