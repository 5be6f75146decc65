"""Parameters that are to be frozen, and are not, or may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_TYPOS = ("require_grad", "requires_gard", "requiresgrad")
_FRESH = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "full", "arange", "tensor", "rand", "randn"))
_MOVED = ("float", "double", "half", "long", "to", "cuda", "unsqueeze", "view", "reshape")
_NEARLY = pattern(rf"\b(?:{'|'.join(_TYPOS)}|requires?_grads|trainable)\b", words=["require", "trainable"])
"""What is written for `requires_grad`, by slip or as other libraries call it."""


def of_copies(sites: Sites) -> Iterator[Place]:
    """`value.requires_grad = False` in a loop over `model.state_dict().items()`: each value is detached."""
    for file in sites.mentioning(["state_dict()"]):
        for assigned in file.walk.attributes:
            if assigned.target.attr == "requires_grad" and _is_of_state(file, assigned.target.value, assigned.context):
                yield file.place(assigned.node, assigned.context)
        for call in file.calls("requires_grad_"):
            owner = call.owner
            if owner is not None and _is_of_state(file, owner, call.context):
                yield call.place


def _is_of_state(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether the variable is bound by loops over the items or the values of a `state_dict` alone."""
    bound = file.bindings(owner.id, context) if isinstance(owner, ast.Name) else []
    return bool(bound) and all(
        isinstance(owner, ast.Name) and isinstance(each.node, ast.For) and _gives_values(each.node, owner.id)
        for each in bound
    )


def _gives_values(loop: ast.For, name: str) -> bool:
    match loop.iter, loop.target:
        case ast.Call(func=ast.Attribute(value=over, attr="items")), ast.Tuple(elts=[_, ast.Name(id=bound)]):
            pass
        case ast.Call(func=ast.Attribute(value=over, attr="values")), ast.Name(id=bound):
            pass
        case _:
            return False
    return bound == name and _is_state(over)


def _is_state(node: ast.expr) -> bool:
    """`model.state_dict()`; with `keep_vars=True` the values are the parameters themselves."""
    asked = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict"
    return asked and isinstance(node, ast.Call) and not node.args and not node.keywords


def compared(sites: Sites) -> Iterator[tuple[Place, str]]:
    """`p.requires_grad == False` as a statement, which compares and forgets the answer."""
    for file in sites.mentioning([".requires_grad =="]):
        for node, context in file.walk.comparisons:
            if node in file.statements and isinstance(node.left, ast.Attribute) and node.left.attr == "requires_grad":
                if isinstance(node.ops[0], ast.Eq) and isinstance(node.comparators[0], ast.Constant):
                    yield file.place(node, context), ast.unparse(node.left)


def unread_names(sites: Sites) -> Iterator[tuple[Place, str]]:
    """`p.require_grad = False`, and `p.trainable = False` in a loop over parameters: set, and read by nobody."""
    files = list(sites.mentioning([".require", ".trainable"], tests=True))
    if not any("torch" in file.text for file in files):
        return
    read = {name for file in files for name in _NEARLY.findall(file.text) if _is_read(file, name)}
    for file in files:
        for assigned in file.walk.attributes:
            owner, name = assigned.target.value, assigned.target.attr
            if name in read or not _NEARLY.fullmatch(name) or ast.unparse(owner) == "self":
                continue
            if _is_false(assigned.value) and _is_fresh(file, owner, assigned.context):
                continue
            if _becomes_parameter(file, owner, assigned.context):
                continue
            if name in _TYPOS or _is_parameter(file, owner, assigned.context):
                yield file.place(assigned.target, assigned.context), name


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _becomes_parameter(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether the tensor is wrapped below: `nn.Parameter(t)` asks for a gradient, or for none, by itself."""
    if not isinstance(owner, ast.Name) or "Parameter(" not in file.text:
        return False
    function = file.function_around(context)
    return function is not None and any(
        function is call.function
        and call.node.lineno > owner.lineno
        and call.node.args
        and any(is_name(before_methods(given, _MOVED), owner.id) for given in _written(file, call))
        for call in file.calls("Parameter")
    )


def _written(file: File, call: Call) -> tuple[ast.expr, ast.expr]:
    """What a call is given, and what that name was assigned."""
    return call.node.args[0], source(file, call.node.args[0], call.context)[0]


def _is_fresh(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether it is a tensor made of numbers, which needs no gradient anyway: `torch.zeros(n, d).float()`."""
    made, where = source(file, owner, context)
    made = before_methods(made, _MOVED)
    asked = isinstance(made, ast.Call) and any(word.arg in ("requires_grad", None) for word in made.keywords)
    return file.called(made, where) in _FRESH and not asked


def _is_read(file: File, name: str) -> bool:
    reads = (node for node in walk(file.module.source.tree) if isinstance(node, ast.Attribute) and node.attr == name)
    return any(isinstance(node.ctx, ast.Load) for node in reads)


def _is_parameter(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether loops over `parameters()` alone bind the variable."""
    bound = file.bindings(owner.id, context) if isinstance(owner, ast.Name) else []
    return bool(bound) and all(
        isinstance(each.node, ast.For) and ast.unparse(each.node.iter).endswith("parameters()") for each in bound
    )


def may_be_frozen(sites: Sites, made: Place, name: str) -> bool:
    """Whether the file that makes a module freezes it somewhere: `self.embed.weight.requires_grad = False`."""
    file, last = sites.at(made.path), name.rpartition(".")[2]
    frozen = rf"\.{re.escape(last)}\b[\w.]*\.requires_grad(?:_\(False|\s*=\s*False)"
    return file is not None and re.search(frozen, file.text) is not None
