"""Neighbours that are looked up by their distance: whether the nearest are taken, or the farthest."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name, is_none, last_name, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import sole
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.unreduced_losses import squared

_DISTANCES = frozenset(["torch.cdist", "scipy.spatial.distance.cdist", "sklearn.metrics.pairwise_distances"])
_DISTANCES |= {"sklearn.metrics.pairwise.euclidean_distances", "sklearn.metrics.pairwise.pairwise_distances"}
_MOVES = ("cpu", "numpy", "detach", "to", "cuda", "float")
_TAKES = ("topk", "argmax", "max", "argsort", "sort")


class Farthest(NamedTuple):
    """The call that takes the greatest distances, and the one that computes them."""

    taken: Call
    distances: Place


def farthest_for_nearest(sites: Sites) -> Iterator[Farthest]:
    """`nearest = torch.cdist(a, b).topk(5).indices`, and `labels[nearest] == y`: those are the farthest."""
    far = any(True for _ in sites.mentioning(["cdist", "pairwise_distances", "euclidean_distances", ".sum("]))
    for file in sites.calling(_TAKES) if far else ():
        for call in file.calls(*_TAKES):
            distances = _distances(call)
            if distances is not None and _takes_greatest(call) and _labels_are_compared(call):
                yield Farthest(call, distances)


def _distances(call: Call) -> Place | None:
    given = call.node.args[0] if _is_by_name(call) and call.node.args else call.owner
    if given is None:
        return None
    found = sole(call.file, before_methods(given, _MOVES), call.context)
    if found is None or found.item >= 0:
        return None
    made = before_methods(found.node, _MOVES)
    is_distance = isinstance(made, ast.Call) and found.file.called(made, found.context) in _DISTANCES
    return found.file.place(made, found.context) if is_distance or _is_by_hand(made) else None


def _is_by_name(call: Call) -> bool:
    return call.file.called(call.node, call.context).startswith(("torch.", "numpy."))


def _is_by_hand(node: ast.expr) -> bool:
    """`((a[:, None] - b[None]) ** 2).sum(-1)`, and the root of that."""
    match before_methods(node, ("sqrt",)):
        case ast.Call(func=ast.Attribute(value=inner, attr="sum"), args=[dim], keywords=[]):
            pass
        case ast.Call(
            func=ast.Attribute(value=inner, attr="sum"), args=[], keywords=[ast.keyword(arg="dim", value=dim)]
        ):
            pass
        case _:
            return False
    difference = squared(inner)
    parts = [part for part in walk(difference) if isinstance(part, ast.Subscript)] if difference is not None else []
    crossed = any(is_none(each) for part in parts for each in walk(part.slice))
    is_difference = isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub)
    return is_difference and crossed and ast.unparse(dim) in ("-1", "2")


def _takes_greatest(call: Call) -> bool:
    of_torch = _is_by_name(call)
    match last_name(call.node.func):
        case "topk":
            return call.constant("largest", 2 + of_torch, default=True) is True
        case "argsort" | "sort":
            return call.constant("descending", 1 + of_torch, default=False) is True
        case "argmax" | "max":
            return call.argument("dim", int(of_torch)) is not None or call.argument("axis") is not None
    return False


def _labels_are_compared(call: Call) -> bool:
    """Whether what stands at the places that were found is compared with labels, or votes for one."""
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    names = _names_of_places(nodes, call.node)
    picked = [node for node in nodes if isinstance(node, ast.Subscript) and _is_by(node.slice, names, call.node)]
    held = {name for node in picked for name in call.file.names_given(_outermost(nodes, node))}
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            inside = walk(node)
            if any(part in inside for part in picked) or any(is_name(part, name) for name in held for part in inside):
                return True
    votes = (node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr == "mode")
    return any(part in picked or last_name(part) in held for vote in votes for part in walk(vote))


def _names_of_places(nodes: list[ast.AST], taken: ast.Call) -> set[str]:
    """The names of the indices: `idx` of `_, idx = d.topk(5)`, `d.topk(5).indices`, `d.topk(5)[1]`, `d.argmax(1)`."""
    names = set[str]()
    alone = last_name(taken.func) in ("argmax", "argsort")
    for line in nodes:
        if not isinstance(line, ast.Assign):
            continue
        match line.targets[0], line.value:
            case ast.Tuple(elts=[_, ast.Name(id=name)]), value if value is taken and not alone:
                names.add(name)
            case ast.Name(id=name), ast.Attribute(value=inner, attr="indices") if inner is taken:
                names.add(name)
            case ast.Name(id=name), ast.Subscript(value=inner, slice=ast.Constant(value=1)) if inner is taken:
                names.add(name)
            case ast.Name(id=name), value if value is taken and alone:
                names.add(name)
    return names


def _is_by(index: ast.expr, names: set[str], taken: ast.Call) -> bool:
    """`nearest`, `nearest[:, 0]`, `nearest.cpu()`, and the call itself where it stands there."""
    parts = walk(index)
    return taken in parts or any(is_name(part, name) for name in names for part in parts)


def _outermost(nodes: list[ast.AST], picked: ast.expr) -> ast.expr:
    """The value of the line that `labels[nearest]` stands in, moved or not."""
    for line in nodes:
        if isinstance(line, ast.Assign) and before_methods(line.value, (*_MOVES, "view", "reshape")) is picked:
            return line.value
    return picked
