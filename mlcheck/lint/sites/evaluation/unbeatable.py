"""Searches for the best score that start at a value which no score beats: `best_loss = 0`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import assigned, is_name, last_name, walk
from mlcheck.lint.sites.branches import branches
from mlcheck.lint.sites.evaluation.metrics import better
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.scopes import AttributeSet, Context

INFINITE = pattern(r"-?(?:float\(['\"][+-]?inf(?:inity)?['\"]\)|(?:np|numpy|math|torch)\.inf)")
_MARGIN = pattern(r"delta|margin|eps|tol|thresh", re.IGNORECASE)


class _Bound(NamedTuple):
    """What the best score is given somewhere, and where."""

    file: File
    node: ast.AST
    value: ast.expr
    context: Context


class Search(NamedTuple):
    """A comparison of a score with the best so far: which scores are taken, and by how much they must be better.

    `arm` is what runs where the score is taken; `strict`: an equal score is not.
    """

    score: ast.expr
    best: ast.expr
    taken: str
    demands: bool
    strict: bool
    arm: list[ast.stmt]


def unbeatable(file: File, test: ast.Compare, best: ast.expr, context: Context) -> Place | None:
    """Where the best score is given that start, if it is given nothing else than better scores afterwards."""
    search = _search(file, test, best, context)
    bound = list(_bound(file, best, context)) if search is not None else []
    if search is None or not bound or len(bound) != _times(file, best, context):
        return None
    starts = [each for each in bound if not _is_better_score(each, search)]
    if not starts or not all(_beats_all(each, search) for each in starts):
        return None
    return starts[0].file.place(starts[0].node, starts[0].context)


def without_margin(side: ast.expr) -> ast.expr:
    """`best` of `best - delta`."""
    return side.left if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add | ast.Sub) else side


def _search(file: File, test: ast.Compare, best: ast.expr, context: Context) -> Search | None:
    function = file.function_around(context)
    nodes = function.nodes if function is not None else walk(file.module.source.tree)
    on_left = without_margin(test.left) is best
    score = without_margin(test.comparators[0] if on_left else test.left)
    rises = isinstance(test.ops[0], ast.Gt | ast.GtE) != on_left
    strict = isinstance(test.ops[0], ast.Lt | ast.Gt)
    for branch in branches(nodes):
        if branch.test is test or _is_one_of(test, branch.test):
            arm = branch.held
            inside = [_takes(each, ast.unparse(best), ast.unparse(score)) for each in (branch.held, branch.other)]
            if inside == [False, True] and branch.test is test:  # `if loss > best: waited += 1`, `else: best = loss`
                rises, strict, arm = not rises, not strict, branch.other
            return Search(score, best, "higher" if rises else "lower", _demands(test, on_left, rises), strict, arm)
    if any(isinstance(node, ast.Assign) and node.value is test for node in nodes):
        return Search(score, best, "higher" if rises else "lower", _demands(test, on_left, rises), strict, [])
    return None


def _demands(test: ast.Compare, on_left: bool, rises: bool) -> bool:
    """Whether a score must be better than the best, not just no worse by a margin: `loss < best - delta`."""
    sides = [test.left, test.comparators[0]]
    for side, is_best in zip(sides, (on_left, not on_left), strict=True):
        if isinstance(side, ast.BinOp):
            is_margin = isinstance(side.right, ast.Constant) or _MARGIN.search(last_name(side.right)) is not None
            if not is_margin or not isinstance(side.op, ast.Add if is_best == rises else ast.Sub):
                return False
    return True


def _is_one_of(test: ast.Compare, whole: ast.expr) -> bool:
    return isinstance(whole, ast.BoolOp) and isinstance(whole.op, ast.And) and any(p is test for p in whole.values)


def _takes(arm: list[ast.stmt], best: str, score: str) -> bool:
    """`best = score`."""
    return any(
        [ast.unparse(target), ast.unparse(value)] == [best, score]
        for line in arm
        for node in walk(line)
        if isinstance(node, ast.Assign)
        for target, value in assigned(node)
    )


def _bound(file: File, best: ast.expr, context: Context) -> Iterator[_Bound]:
    """Everything that a variable, or an attribute of the object, is given."""
    if isinstance(best, ast.Name):
        for each in file.bindings(best.id, context):
            if each.kind == "value" and isinstance(each.value, ast.expr):
                yield _Bound(file, each.node, each.value, each.context)
        return
    function = file.function_around(context)
    name = own_attribute(best, function)
    cls = function.cls if function is not None and name else None
    for method, given in cls.attribute(name) if cls is not None else ():
        value = given.value or _part(given)
        if value is not None:
            yield _Bound(method.file, given.node, value, given.context)
    for base, line in _defaults(cls, name) if cls is not None else ():
        if line.value is not None:
            yield _Bound(base.file, line, line.value, base.defined.inner)


def _part(given: AttributeSet) -> ast.expr | None:
    """`loss` for `self.best` in `self.best, self.waited = loss, 0`."""
    parts = given.unpacked
    known = isinstance(parts, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in parts.elts)
    return parts.elts[given.item] if known and isinstance(parts, ast.Tuple) else None


def _defaults(cls: Class, name: str) -> list[tuple[Class, ast.AnnAssign | ast.Assign]]:
    """`best: float = 0.0` in the body of the class."""
    return [
        (each, line)
        for each in cls.line
        for line in each.node.body
        if (isinstance(line, ast.AnnAssign) and is_name(line.target, name))
        or (isinstance(line, ast.Assign) and any(is_name(target, name) for target in line.targets))
    ]


def _is_given(cls: Class, name: str) -> bool:
    """Whether an object is made with another start than the default of its class, as far as the text tells."""
    files = cls.file.sites.mentioning([cls.name], tests=True)
    makers = [call.node for file in files for call in file.calls(cls.name, "cls", "replace")]
    return any(call.args or any(word.arg in (None, name) for word in call.keywords) for call in makers)


def _times(file: File, best: ast.expr, context: Context) -> int:
    """How often it is given something, wherever that may be; -1 where nobody can tell."""
    if isinstance(best, ast.Name):
        return len(file.bindings(best.id, context))
    function = file.function_around(context)
    name = own_attribute(best, function)
    around = list(file.sites.mentioning([name], tests=True)) if name else []
    if not name or any(word in file.text for word in ("__dict__", "setattr(", "load_state_dict(self")):
        return -1
    defaults = len(_defaults(function.cls, name)) if function is not None and function.cls is not None else 0
    if defaults and function is not None and function.cls is not None and _is_given(function.cls, name):
        return -1
    written = re.compile(rf"\.{name}\b(?:, [\w.]+)* *(?:[-+*/]?=(?!=)|: \w+ =)")
    return defaults + sum(len(written.findall(other.text)) for other in around)


def _is_better_score(bound: _Bound, search: Search) -> bool:
    """`best = score` where that is better, and `best = min(score, best)` anywhere."""
    text, score, best = ast.unparse(bound.value), ast.unparse(search.score), ast.unparse(search.best)
    extreme = "max" if search.taken == "higher" else "min"
    if text in (f"{extreme}({score}, {best})", f"{extreme}({best}, {score})"):
        return True
    return text == score and any(bound.node in walk(line) for line in search.arm)


def _beats_all(start: _Bound, search: Search) -> bool:
    """Nothing, of losses that must be lower, and infinity on the side where no score lies."""
    if not search.demands:
        return False
    named = {better(last_name(search.best)), better(last_name(search.score))} - {""}
    text = ast.unparse(start.value)
    if INFINITE.fullmatch(text):
        turned = "-" in text
        # a loss taken when it is higher is compared the wrong way round, which is another rule's
        return turned == (search.taken == "lower") and named <= {search.taken}
    number = start.file.constant(start.value, start.context)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    is_loss = any("loss" in last_name(side).lower() for side in (search.best, search.score))
    return search.taken == "lower" and named == {"lower"} and number == 0 and (search.strict or is_loss)
