"""Targets of mixed samples that are those of other partners, or have the weights of the other side."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.data.blended import Blend, Partners, blends, mixes_by_draw, partners, pasted, weighed
from mlcheck.lint.sites.data.shuffled_apart import shuffled_apart
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_WORDS = ("1 - ", "1.0 - ", "1. - ", "1-", "1.0-", "1.-", "randperm", "flip(0")


class OtherPartners(NamedTuple):
    """Where samples are mixed with their partners, and where something else is with others."""

    mixed: Place
    other: Place
    samples: str
    targets: str


class Crossed(NamedTuple):
    """The loss that weighs the targets the wrong way round, and the mixture of the samples.

    `twice`: it weighs the targets of the samples and, for those of their partners, the same ones again.
    """

    loss: Place
    mixed: Place
    weight: str
    twice: bool


def other_partners(sites: Sites) -> Iterator[OtherPartners]:
    """`lam * x + (1 - lam) * x[one]`, and beside it `lam * y + (1 - lam) * y[other]`."""
    files = list(sites.mentioning(_WORDS)) if sites.uses_torch else []
    told = (
        {id(call.node) for apart in shuffled_apart(sites) for call in (apart.first, apart.second)} if files else set()
    )
    for file in files:
        for function in file.functions:
            if any(word in function.text for word in _WORDS):
                yield from _in_function(function, told)
    mixing = any(mixes_by_draw(function) for file in files for function in file.functions)
    for file in sites.files.values() if mixing else ():
        for function in file.functions:
            yield from _by_calls(file, function.nodes, function.inner)


def _in_function(function: Function, told: set[int]) -> Iterator[OtherPartners]:
    file = function.file
    mixed = [each.partners._replace(node=each.node) for each in blends(file, function.node, function.inner)]
    mixed += pasted(file, function.node, function.inner)
    mixed.sort(key=lambda each: getattr(each.node, "lineno", 0))
    taken = [*mixed, *_taken(file, function.nodes, function.inner)] if mixed else []
    keys: dict[str, set[object]] = {}
    for each in taken:
        keys.setdefault(each.of, set()).add(each.key)
    first, second = _two(taken, keys)
    if first is not None and second is not None and told.isdisjoint([first.key, second.key]):
        places = file.place(first.node, function.inner), file.place(second.node, function.inner)
        yield OtherPartners(*places, first.of, second.of)


def _taken(file: File, nodes: list[ast.AST], context: Context) -> Iterator[Partners]:
    """What else is taken of partners: `y[order]`."""
    for node in nodes:
        if isinstance(node, ast.Subscript | ast.Call) and not isinstance(getattr(node, "ctx", None), ast.Store):
            found = partners(file, node, context)
            if found is not None:
                yield found


def _two(taken: list[Partners], keys: dict[str, set[object]]) -> tuple[Partners | None, Partners | None]:
    """The two things that are taken in two orders; nothing of more, which may be two batches."""
    if len(keys) != 2 or any(len(each) != 1 for each in keys.values()) or len(set.union(*keys.values())) != 2:
        return None, None
    first = taken[0]
    return first, next(each for each in taken if each.of != first.of)


def _by_calls(file: File, nodes: list[ast.AST], context: Context) -> Iterator[OtherPartners]:
    """`x = mix(x, lam)` and `y = mix(y, lam)`, of a function that draws the partners for itself."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and len(node.args) > 1]
    calls.sort(key=lambda call: call.lineno)
    mixing = [call for call in calls if _mixes(file, call, context)]
    names = [ast.unparse(call.args[0]) for call in mixing]
    alike = len({ast.unparse(call.func) + ast.unparse(call.args[1]) for call in mixing}) == 1
    if len(mixing) == 2 and len(set(names)) == 2 and alike and isinstance(mixing[0].args[1], ast.Name):
        yield OtherPartners(file.place(mixing[0], context), file.place(mixing[1], context), *names)


def _mixes(file: File, call: ast.Call, context: Context) -> bool:
    named = file.resolve(call.func, context)
    return isinstance(named, Function) and mixes_by_draw(named)


def crossed_weights(sites: Sites) -> Iterator[Crossed]:
    """`(1 - lam) * loss(out, y) + lam * loss(out, y[order])` of samples that are `lam * x + (1 - lam) * x[order]`."""
    files = list(sites.mentioning(_WORDS)) if sites.uses_torch else []
    mixed = [(file, f.inner, each) for file in files for f in file.functions for each in blends(file, f.node, f.inner)]
    for file in files if mixed else ():
        for scope, context in file.scopes():
            for node in file.nodes_in(scope):
                found = _crossed(file, node, context, mixed)
                if found is not None:
                    yield found


def _crossed(file: File, node: ast.AST, context: Context, mixed: list[tuple[File, Context, Blend]]) -> Crossed | None:
    loss = weighed(node)
    one, other = (_target(loss.one), _target(loss.other)) if loss is not None else (None, None)
    if loss is None or one is None or other is None:
        return None
    weights = {id(each.node) for each in origins(file, loss.weight, context)}
    targets = [origins(file, each, context) for each in (one, other)]
    partner = [_partners(each) for each in targets]
    taken = [each for each in partner if each is not None]
    twice = not taken and _is_same(*targets) and _given(loss.one) == _given(loss.other)
    if len(taken) != 1 and not twice:
        return None
    for where, inner, blend in mixed:
        drawn = {id(each.node) for each in origins(where, blend.weight, inner)}
        if len(weights) != 1 or drawn != weights:
            continue
        if twice or (blend.partners.key == taken[0].key and (partner[0] is not None) is blend.own):
            places = file.place(node, context), where.place(blend.node, inner)
            return Crossed(*places, ast.unparse(loss.weight), twice)
    return None


def _is_same(one: list[Origin], other: list[Origin]) -> bool:
    """Whether two values are one: they come from the same expression, or from one variable that is read twice."""
    if len(one) != 1 or len(other) != 1 or one[0].item != other[0].item:
        return False
    first, second = one[0], other[0]
    if isinstance(first.node, ast.Name) and isinstance(second.node, ast.Name):
        bound = latest(first.file, first.node, first.context)
        return bound is not None and bound is latest(second.file, second.node, second.context)
    return first.node is second.node


def _given(term: ast.expr) -> str:
    """`out` of `criterion(out, y)`."""
    call = before_methods(term, ("mean", "sum"))
    return ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else ""


def _target(term: ast.expr) -> ast.expr | None:
    """`y` of `criterion(out, y)`, and `y[order]`."""
    call = before_methods(term, ("mean", "sum"))
    given = call.args if isinstance(call, ast.Call) and not call.keywords else []
    return given[1] if len(given) == 2 else None


def _partners(found: list[Origin]) -> Partners | None:
    return partners(found[0].file, found[0].node, found[0].context) if len(found) == 1 else None
