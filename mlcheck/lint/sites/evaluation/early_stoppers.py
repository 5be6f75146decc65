"""Objects that stop training or keep the best model: which scores they take for better, and what they are told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, is_attribute, is_name, last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_WAITS = pattern(r"counter|patience|wait|bad|stop|no_improve|stale", re.IGNORECASE)
_SAVES = pattern(r"save|checkpoint|state_dict|deepcopy", re.IGNORECASE)
_OWN_NAME = pattern(r"save|checkpoint|best|early|stop", re.IGNORECASE)
_MARGIN = pattern(r"delta|margin|eps|tol|thresh", re.IGNORECASE)


class Told(NamedTuple):
    """A call that tells an object a score, and which scores that object takes for better."""

    call: Call
    score: ast.expr
    wanted: str
    compared: ast.Compare
    stopper: Function
    parameter: str


def told_scores(sites: Sites) -> Iterator[Told]:
    """`stopper(loss, model)`, of a class that keeps the best score of its calls and counts those without a better.

    `keeper.save(model, loss)` too, of one that saves a model with each score that is better.
    """
    for file in sites.mentioning(["best"]):
        for method in file.functions:
            if method.cls is None or method.name == "__init__" or "best" not in method.text:
                continue
            for compared, name, wanted in _choices(method):
                position = list(method.parameters).index(name) - 1
                for call in (*callers(sites, method), *_by_name(sites, method)):
                    given = call.argument(name, position)
                    if given is not None:
                        made = source(call.file, given, call.context)[0]
                        score = made if isinstance(made, ast.Name | ast.Attribute | ast.Subscript) else given
                        yield Told(call, score, wanted, compared, method, name)


def _by_name(sites: Sites, method: Function) -> Iterator[Call]:
    """The calls of a method whose name is its own in the program, of objects that came in as arguments."""
    files = list(sites.mentioning([method.name])) if _OWN_NAME.search(method.name) else []
    namesakes = [each for file in files for each in file.functions if each.name == method.name]
    for call in (call for file in files for call in file.calls(method.name) if namesakes == [method]):
        func, names = call.node.func, {word.arg for word in call.node.keywords}
        owner = func.value if isinstance(func, ast.Attribute) else None
        if not isinstance(owner, ast.Name) or call.file.resolve(func, call.context) is not None:
            continue
        bound = [binding.kind for binding in call.file.bindings(owner.id, call.context)]
        fits = len(call.node.args) < len(method.parameters) and names <= set(method.parameters)
        if bound == ["param"] and fits:
            yield call


def _choices(method: Function) -> Iterator[tuple[ast.Compare, str, str]]:
    """`elif score < self.best + delta: self.counter += 1 ... else: self.best = score`, of a parameter `score`."""
    for node in method.all(ast.If):
        test, _ = source(method.file, node.test, method.inner)
        parts = test.values if isinstance(test, ast.BoolOp) else [test]  # `best is None or ...`
        for compare in parts:
            if isinstance(compare, ast.Compare) and len(compare.ops) == 1:
                yield from _choice(method, node, compare)


def _choice(method: Function, node: ast.If, compare: ast.Compare) -> Iterator[tuple[ast.Compare, str, str]]:
    rises = isinstance(compare.ops[0], ast.Gt | ast.GtE)
    if not rises and not isinstance(compare.ops[0], ast.Lt | ast.LtE):
        return
    for score, best, higher in (
        (compare.left, compare.comparators[0], rises),
        (compare.comparators[0], compare.left, not rises),
    ):
        kept = _kept(best)
        given = _as_given(method, score.id) if isinstance(score, ast.Name) else ""
        if not isinstance(score, ast.Name) or kept is None or not given:
            continue
        if not is_attribute(kept, method.receiver, kept.attr) or "best" not in kept.attr:
            continue
        otherwise = node.orelse or _rest(method, node)
        better, worse = (_keeps(arm, kept, score.id) for arm in (node.body, otherwise))
        chosen, other = (node.body, otherwise) if better else (otherwise, node.body)
        if better != worse and (any(map(_waits, other)) or any(map(_saves, chosen))):
            yield compare, given, "higher" if higher == better else "lower"


def _rest(method: Function, node: ast.If) -> list[ast.stmt]:
    """What is left of the method where the branch does not return from it."""
    body = method.node.body
    returns = isinstance(node.body[-1], ast.Return)
    return body[body.index(node) + 1 :] if returns and node in body else []


def _kept(best: ast.expr) -> ast.Attribute | None:
    """`self.best` of `self.best + self.delta`."""
    if isinstance(best, ast.BinOp) and isinstance(best.op, ast.Add | ast.Sub):
        best = best.left if _MARGIN.search(ast.unparse(best.right)) or isinstance(best.right, ast.Constant) else best
    return best if isinstance(best, ast.Attribute) else None


def _as_given(method: Function, name: str) -> str:
    """The parameter that it is, by itself or by `score = loss`; "" where something turns it round: `score = -loss`."""
    bound = method.file.bindings(name, method.inner)
    if len(bound) != 1:
        return ""
    if bound[0].kind == "value" and isinstance(bound[0].value, ast.Name) and bound[0].value.id != name:
        return _as_given(method, bound[0].value.id)
    return name if name in method.parameters and name != method.receiver else ""


def _keeps(arm: list[ast.stmt], kept: ast.Attribute, score: str) -> bool:
    pairs = [pair for line in arm for node in walk(line) if isinstance(node, ast.Assign) for pair in assigned(node)]
    return any(ast.unparse(target) == ast.unparse(kept) and is_name(value, score) for target, value in pairs)


def _saves(line: ast.stmt) -> bool:
    """`torch.save(model.state_dict(), self.path)`, `self.weights = copy.deepcopy(model)`."""
    calls = (node for node in walk(line) if isinstance(node, ast.Call))
    return any(_SAVES.search(last_name(call.func)) for call in calls)


def _waits(line: ast.stmt) -> bool:
    """`self.counter += 1`."""
    return any(isinstance(n, ast.AugAssign) and _WAITS.search(ast.unparse(n.target)) for n in walk(line))
