"""Losses of two views whose projections are cut off from the gradient on one side alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.evaluation.without_gradients import switches_off
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_CUTS = (".detach()", ".data")


class OneSided(NamedTuple):
    """Where the uncut projection stands, its name, and where the other one is cut."""

    place: Place
    name: str
    cut: Place


class _View(NamedTuple):
    """A prediction, and the projection that it was made of: `p = predictor(z)`."""

    predicted: str
    projected: str
    predictor: str


def one_sided(sites: Sites) -> Iterator[OneSided]:
    """`D(p1, z2.detach()) + D(p2, z1)`, where `p1 = h(z1)` and `p2 = h(z2)`; `return p1, p2, z1.detach(), z2` too."""
    for file in sites.mentioning(_CUTS):
        for function in file.functions:
            views = _views(function) if any(cut in function.text for cut in _CUTS) else []
            for one, other in ((a, b) for a in views for b in views if a is not b and a.predictor == b.predictor):
                yield from _in_calls(function, one, other)
                yield from _in_return(function, one, other)


def _views(function: Function) -> list[_View]:
    found = []
    for name in function.inner.scope.bindings:
        match _made(function, name):
            case ast.Call(func=func, args=[ast.Name(id=projected)], keywords=[]) if _has_graph(function, projected):
                found.append(_View(name, projected, ast.unparse(func)))
    return found


def _made(function: Function, name: str) -> ast.expr | None:
    """What a name is bound to, once and with gradients, alone or with others."""
    bound = function.inner.scope.bindings.get(name, [])
    value = bound[0].value if len(bound) == 1 else None
    if not isinstance(value, ast.expr) or bound[0].kind != "value":
        return None
    if any(isinstance(outer.node, ast.With) and switches_off(outer.node) for outer in bound[0].context.outwards()):
        return None
    return value


def _has_graph(function: Function, name: str) -> bool:
    """Whether it is computed in the function, and nothing there cuts it off."""
    made = _made(function, name)
    return isinstance(made, ast.Call) and not any(cut in ast.unparse(made) for cut in _CUTS)


def _in_calls(function: Function, one: _View, other: _View) -> Iterator[OneSided]:
    """A comparison of `one` with the cut projection of `other`, and the same of `other` with that of `one`, uncut."""
    for cut in function.all(ast.Call):
        if len(cut.args) != 2 or not is_name(cut.args[0], one.predicted) or not _is_cut(cut.args[1], other.projected):
            continue
        for uncut in function.all(ast.Call):
            same = len(uncut.args) == 2 and ast.unparse(uncut.func) == ast.unparse(cut.func)
            if same and is_name(uncut.args[0], other.predicted) and is_name(uncut.args[1], one.projected):
                yield OneSided(function.place(uncut), one.projected, function.place(cut))


def _in_return(function: Function, one: _View, other: _View) -> Iterator[OneSided]:
    for line in function.all(ast.Return):
        parts = line.value.elts if isinstance(line.value, ast.Tuple) else getattr(line.value, "values", [])
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        if not {one.predicted, other.predicted, one.projected} <= names:
            continue
        if any(_is_cut(part, other.projected) for part in parts):
            yield OneSided(function.place(line), one.projected, function.place(line))


def _is_cut(node: ast.expr, name: str) -> bool:
    return any(ast.unparse(node) == f"{name}{cut}" for cut in _CUTS)
