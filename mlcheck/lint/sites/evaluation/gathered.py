"""What is gathered over batches in a list, and joined, moved or handed on afterwards: back to what one batch adds."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import given
from mlcheck.lint.sites.scopes import Context

_JOINS = frozenset(["torch.cat", "torch.stack", "torch.concat", "torch.hstack", "torch.vstack", "torch.tensor"])
_JOINS |= {f"numpy.{name}" for name in ("concatenate", "array", "asarray", "stack", "hstack", "vstack")}
_MOVES = ("cpu", "detach", "numpy", "tolist", "squeeze", "flatten", "view", "reshape", "ravel", "float", "to", "item")
_DEPTH = 8


class Gathered(NamedTuple):
    """What each batch adds, and where that stands."""

    file: File
    node: ast.expr
    context: Context


def gathered(file: File, node: ast.expr, context: Context, brought: bool = False) -> Gathered | None:
    """`model(x)` behind `torch.cat(scores)`, where `scores.append(model(x).cpu())` is all that the list is given.

    `brought`: what a loop brings, `y` of `labels.append(y)`, is an answer too.
    """
    found, listed = Gathered(file, node, context), False
    for _ in range(_DEPTH):
        node = before_methods(found.node, _MOVES)
        if isinstance(node, ast.Call) and node.args and found.file.called(node, found.context) in _JOINS:
            found = found._replace(node=node.args[0])
            continue
        if not isinstance(node, ast.Name):
            return found._replace(node=node) if listed else None
        further = _step(found._replace(node=node), node)
        if further is None:
            return found._replace(node=node) if brought and listed else None
        listed |= further.listed
        found = Gathered(further.file, further.node, further.context)
    return None


def score_of_gathered(function: Function, loops: Iterable[ast.For]) -> ast.Call | None:
    """`roc_auc_score(labels, scores)` of lists that one of the loops has filled, batch by batch."""
    inside = {id(node) for loop in loops for node in walk(loop)}
    for node in function.nodes if inside else ():
        if not isinstance(node, ast.Call) or len(node.args) < 2 or id(node) in inside:
            continue
        if function.file.called(node, function.inner).startswith("sklearn.metrics."):
            found = [gathered(function.file, arg, function.inner) for arg in node.args[:2]]
            if any(each is not None and id(each.node) in inside for each in found):
                return node
    return None


class _Step(NamedTuple):
    file: File
    node: ast.expr
    context: Context
    listed: bool = False


def _step(found: Gathered, name: ast.Name) -> _Step | None:
    """One step back: the line that bound the name, the one call that hands it in, or what is added to the list."""
    bound = latest(found.file, name, found.context)
    if bound is None:
        return _added(found, name.id) if _is_grown_list(found, name) else None
    if bound.kind == "param":
        function = found.file.function_around(bound.context)
        held = list(given(found.file.sites, function, name.id)) if function is not None else []
        return _Step(held[0].file, held[0].node, held[0].context) if len(held) == 1 else None
    if not isinstance(bound.value, ast.expr) or bound.kind != "value":
        return None
    if isinstance(bound.value, ast.List) and not bound.value.elts:
        return _added(found, name.id)
    return _Step(found.file, bound.value, bound.context)


def _is_grown_list(found: Gathered, name: ast.Name) -> bool:
    """`preds = []`, and nothing but `preds += ...` above the use."""
    above = [b for b in found.file.bindings(name.id, found.context) if getattr(b.node, "lineno", 0) < name.lineno]
    made = [b.value for b in above if not isinstance(b.node, ast.AugAssign)]
    return len(made) == 1 and isinstance(made[0], ast.List) and not made[0].elts


def _added(found: Gathered, name: str) -> _Step | None:
    """The one thing that the function adds to its list: `append(x)`, `extend(x)`, `+= x`."""
    function = found.file.function_around(found.context)
    adds: list[tuple[ast.expr, Context]] = []
    for node, context in found.file.walk.mutations.get(name, ()):
        if found.file.function_around(context) is not function:
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr="append" | "extend"), args=[value]):
                adds.append((value, context))
            case ast.Call():
                return None
    bound = [(each.node, each.context) for each in found.file.bindings(name, found.context)]
    adds += [(node.value, context) for node, context in bound if isinstance(node, ast.AugAssign)]
    if len(adds) != 1 or any(isinstance(node, ast.Compare) for node in walk(adds[0][0])):
        return None
    value, context = adds[0]
    if isinstance(value, ast.List) and len(value.elts) == 1:
        value = value.elts[0]
    return _Step(found.file, value, context, listed=True)
