"""Models that are fed the right answer for their own by chance: teacher forcing, in the share that a call asks for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_DRAWS = frozenset(["random.random", "random.uniform", "torch.rand", "numpy.random.rand", "numpy.random.random"])
_DRAWS |= {"numpy.random.uniform", "numpy.random.random_sample"}
_HANDS = 3


class Forced(NamedTuple):
    """A function that hands on the answers it is given, the parameter of these, and that of the share.

    `kept`: the attribute that the share is instead, which no call asks for.
    """

    function: Function
    answers: str
    share: str
    kept: ast.expr | None
    drawn: ast.expr


def forced_answers(sites: Sites) -> list[Forced]:
    """`step = target[t] if random.random() < ratio else best`, and the functions that hand both parameters on."""
    found = [each for file in sites.mentioning(["rand"]) for function in file.functions for each in _forced(function)]
    todo = [(each, _HANDS) for each in found]
    while todo:
        inner, hands = todo.pop()
        for call in callers(sites, inner.function) if hands else ():
            shared = (inner.answers, inner.share) if inner.kept is None else ()
            given = [_handed(call, inner.function, name) for name in shared]
            names = [node.id for node in given if isinstance(node, ast.Name)]
            outer = call.function
            if outer is not None and len(names) == 2 and all(name in outer.parameters for name in names):
                passed = Forced(outer, names[0], names[1], None, inner.drawn)
                if passed not in found:
                    found.append(passed)
                    todo.append((passed, hands - 1))
    return found


def shares_of(call: Call, forced: Forced) -> list[object]:
    """The shares that a call may ask for, UNKNOWN among them; none where it gives no answers."""
    answers = _handed(call, forced.function, forced.answers)
    if answers is None or answers is OPEN or (isinstance(answers, ast.Constant) and answers.value is None):
        return []
    if forced.kept is not None:
        kept = origins(forced.function.file, forced.kept, forced.function.inner)
        return [each.file.constant(each.node, each.context) for each in kept]
    given = _handed(call, forced.function, forced.share)
    if given is None:
        default = forced.function.parameters[forced.share]
        return [forced.function.file.constant(default, forced.function.defined.context)]
    return [each.file.constant(each.node, each.context) for each in origins(call.file, given, call.context)]


def _handed(call: Call, function: Function, name: str) -> ast.expr | None:
    return call.argument(name, list(function.parameters).index(name) - (1 if function.receiver else 0))


def _forced(function: Function) -> Iterator[Forced]:
    if ".training" in function.text:
        return
    for test in function.all(ast.Compare):
        share = _share(function.file, test, function.inner)
        kept = share if isinstance(share, ast.Attribute) and is_name(share.value, function.receiver) else None
        if kept is None and last_name(share) not in function.parameters:
            continue
        names = {last_name(line.targets[0]) for line in function.all(ast.Assign) if test in walk(line.value)}
        for asked, *both in _choices(function):
            if asked is test or last_name(asked) in names:
                arms = [_parts_of(function, arm) for arm in both]
                answers = (arms[0] | arms[1]) - (arms[0] & arms[1])
                yield from (Forced(function, name, last_name(share), kept, test) for name in answers)


def _choices(function: Function) -> Iterator[tuple[ast.expr, list[ast.AST], list[ast.AST]]]:
    """The test of each choice, and what its two arms are."""
    for branch in function.all(ast.If):
        yield branch.test, [*branch.body], [*branch.orelse]
    for choice in function.all(ast.IfExp):
        yield choice.test, [choice.body], [choice.orelse]
    for call in function.all(ast.Call):
        if len(call.args) == 3 and function.file.called(call, function.inner) == "torch.where":
            yield call.args[0], [call.args[1]], [call.args[2]]


def _parts_of(function: Function, arm: list[ast.AST]) -> set[str]:
    """The parameters whose parts an arm reads: `target` of `target[:, t]`."""
    nodes = [node for part in arm for node in walk(part)]
    parts = [node.value for node in nodes if isinstance(node, ast.Subscript)]
    return {part.id for part in parts if isinstance(part, ast.Name) and part.id in function.parameters}


def _share(file: File, test: ast.Compare, context: Context) -> ast.expr | None:
    """`ratio` of `random.random() < ratio`, `self.ratio` of `self.ratio > torch.rand(1).item()`."""
    match test:
        case ast.Compare(left=drawn, ops=[ast.Lt() | ast.LtE()], comparators=[ast.Name() | ast.Attribute() as share]):
            pass
        case ast.Compare(left=ast.Name() | ast.Attribute() as share, ops=[ast.Gt() | ast.GtE()], comparators=[drawn]):
            pass
        case _:
            return None
    calls = [node for node in walk(drawn) if isinstance(node, ast.Call)]
    return share if any(file.called(call, context) in _DRAWS for call in calls) else None
