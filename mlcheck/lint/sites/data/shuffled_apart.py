"""Inputs and targets that one function puts into random order, each by a draw of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_IN_PLACE = ("random.shuffle", "numpy.random.shuffle")
_ORDERS = ("torch.randperm", "numpy.random.permutation")
_TARGET = pattern(r"(?:^|_)(?:y|ys|labels?|targets?|gts?|classes|answers?|masks?|probs?|onehot|one_hot)(?:_|\d|$)")
_INPUT = pattern(
    r"(?:^|_)(?:x|xs|inputs?|images?|imgs?|features?|feats?|texts?|sentences?|pixels?|signals?|pictures?)(?:_|\d|$)"
)
_SUPERVISED = pattern(r"label|target|cross_entropy|CrossEntropy|mse_loss|MSELoss|accuracy|classif")
_SAME = pattern(r"seed|getstate|get_state|RandomState|default_rng|generator")
_GENERATORS = ("numpy.random.RandomState", "numpy.random.default_rng", "random.Random")


class _Shuffle(NamedTuple):
    """What a call puts into random order. `by`: the generator it asks, where the function makes that itself."""

    name: str
    call: Call
    by: ast.expr | None = None


class ShuffledApart(NamedTuple):
    """The names of inputs and targets, and the calls that shuffle them."""

    inputs: str
    targets: str
    first: Call
    second: Call


def shuffled_apart(sites: Sites) -> Iterator[ShuffledApart]:
    """`random.shuffle(images)`, `random.shuffle(labels)`; `x[randperm(n)]`, `y[randperm(n)]`."""
    for file in sites.mentioning(["shuffle(", "randperm(", "permutation("]) if sites.uses_torch else ():
        drawing = {function for function in file.functions if _gives_shuffled(function)}
        for scope, context in file.scopes():
            text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
            found, may_agree = list(_shuffles(file, context, drawing)), _SAME.search(text) is not None
            for generator in dict.fromkeys(each.by for each in found):
                if generator is not None or not may_agree:
                    yield from _pairs([each for each in found if each.by is generator])


def _pairs(shuffles: list[_Shuffle]) -> Iterator[ShuffledApart]:
    orders: dict[int, set[str]] = {}
    for each in shuffles:
        orders.setdefault(id(each.call.node), set()).add(_kind(each.name))
    shuffles = [each for each in shuffles if not {"input", "target"} <= orders[id(each.call.node)]]
    for number, first in enumerate(shuffles):
        for second in shuffles[number + 1 :]:
            kinds = [_kind(first.name), _kind(second.name)]
            if sorted(kinds) != ["input", "target"] or split_of_name(first.name) != split_of_name(second.name):
                continue
            if {first.name, second.name} == {"x", "y"} and not _SUPERVISED.search(first.call.file.text):
                continue  # two samples whose distributions are compared
            if first.call.node is second.call.node or first.call.context.excludes(second.call.context):
                continue
            inputs, targets = (first, second) if kinds[0] == "input" else (second, first)
            yield ShuffledApart(inputs.name, targets.name, first.call, second.call)
            return


def _kind(name: str) -> str:
    return "target" if _TARGET.search(name.lower()) else "input" if _INPUT.search(name.lower()) else ""


def _shuffles(file: File, context: Context, drawing: set[Function]) -> Iterator[_Shuffle]:
    """What the lines of one function put into an order of their own, in the order of the text."""
    names = {function.name for function in drawing}
    for call in file.calls("shuffle", "randperm", "permutation", *sorted(names)):
        if file.function_around(call.context) is not file.function_around(context):
            continue
        called, by = file.called(call.node, call.context), _generator(call)
        given = call.node.args[0] if call.node.args else None
        shuffled = called in (*_IN_PLACE, "numpy.random.permutation") or (
            file.resolve(call.node.func, call.context) in drawing and len(call.node.args) == 1
        )
        if (shuffled or by is not None) and isinstance(given, ast.Name):
            yield _Shuffle(given.id, call, by)
        elif called in _ORDERS or by is not None:
            yield from (_Shuffle(owner, call, by) for owner in _indexed_by(file, call))


def _generator(call: Call) -> ast.expr | None:
    """What makes `rng` of `rng.permutation(n)`, once and outside of any loop around the call."""
    if not isinstance(call.owner, ast.Name):
        return None
    made, where = source(call.file, call.owner, call.context)
    again = call.loops[:1] != Call(call.file, call.node, where).loops[:1]
    return made if call.file.called(made, where) in _GENERATORS and not again else None


def _indexed_by(file: File, order: Call) -> Iterator[str]:
    """`x` of `x[torch.randperm(n)]`, where the order is drawn right there or kept under a name."""
    function = order.function
    nodes = function.nodes if function is not None else walk(file.module.source.tree)
    for node in nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        drawn = source(file, node.slice, order.context)[0] if isinstance(node.slice, ast.Name) else node.slice
        if drawn is order.node:
            yield last_name(node.value)


def _gives_shuffled(function: Function) -> bool:
    """`def shuffle(rows): return rows[torch.randperm(len(rows))]`, of its one argument."""
    names = [name for name in function.parameters if name != function.receiver]
    if len(names) != 1 or _SAME.search(function.text):
        return False
    for given in returns(function):
        match given:
            case ast.Subscript(value=ast.Name(id=owner), slice=index) if owner == names[0]:
                made, context = source(function.file, index, function.inner)
                return function.file.called(made, context) in _ORDERS
    return False
