"""patience-never-reset: epochs without a better score are counted up, and never from zero again."""

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_none, last_name, stores_of, walk
from mlcheck.lint.sites import File, Function
from mlcheck.lint.sites.branches import branches
from mlcheck.lint.sites.guards import own_attribute

LOOKS_AT = "count of epochs without a better score"
WORDS = ("+= 1", "+ 1")
_ENDS = (ast.Break, ast.Return, ast.Raise)
_STOPS = pattern(r"stop|patien|early|halt|done|finish")

Branch = tuple[ast.If, ast.AugAssign]


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for function in file.functions:
            for branch, count in _counted(function):
                facts.sites.seen[LOOKS_AT] += 1
                if _is_reset(file, function, count.target) or not _ends(function, count.target):
                    continue
                yield Finding(
                    f"`{ast.unparse(count.target)}` counts all epochs without an improvement, not consecutive ones: "
                    "nothing resets it when the score improves",
                    function.place(count).location,
                    help=f"`{ast.unparse(count.target)} = 0` where the best score is written down",
                    related=(function.place(branch.test).location,),
                )


def _counted(function: Function) -> Iterator[Branch]:
    """`if loss < best: best = loss`, `else: bad_epochs += 1`, and the other way round, in a loop or in a method."""
    for branch in branches(function.nodes) if any(map(_is_count, function.all(ast.AugAssign))) else ():
        test = _comparison(branch.test)
        if not isinstance(test, ast.Compare | ast.Name | ast.Call) or not branch.held or not branch.other:
            continue
        for better, worse in ((branch.held, branch.other), (branch.other, branch.held)):
            if _writes_down(better, test, branch.follows(better)) and not (_writes_down(worse, test) or _cuts(worse)):
                counts = [line for line in worse if _is_count(line) and _goes_on(better[-1], line.target)]
                yield from ((branch.node, line) for line in counts)


def _comparison(test: ast.expr) -> ast.expr:
    """`score > self.best` of `self.best is None or score > self.best`."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=[ast.Compare(ops=[ast.Is()], comparators=[none]), compared]):
            return compared if is_none(none) else test
    return test


def _goes_on(last: ast.stmt, count: ast.expr) -> bool:
    """Whether what counts is asked again after a better score; a search may end with the first."""
    return not isinstance(last, ast.Break | ast.Raise | ast.Return if isinstance(count, ast.Name) else ast.Raise)


def _is_count(line: ast.stmt) -> TypeGuard[ast.AugAssign]:
    """`bad_epochs += 1`."""
    if not isinstance(line, ast.AugAssign) or not isinstance(line.op, ast.Add):
        return False
    return isinstance(line.value, ast.Constant) and line.value.value == 1 and type(line.value.value) is int


def _writes_down(lines: list[ast.stmt], test: ast.expr, only_the_other: bool = False) -> bool:
    """Whether a line takes one side of the comparison for what the other is compared with from now on.

    Where a flag or a method holds the comparison, `if improved:`, that is what has the best in its name."""
    if not isinstance(test, ast.Compare):
        given = [line for line in lines if isinstance(line, ast.Assign) and not isinstance(line.value, ast.Constant)]
        return any("best" in last_name(target).lower() for line in given for target in line.targets)
    sides = {ast.unparse(node) for node in walk(test) if isinstance(node, ast.Name | ast.Attribute)}
    return any(
        isinstance(line, ast.Assign)
        and (ast.unparse(line.value) in sides if only_the_other else not isinstance(line.value, ast.Constant))
        and any(ast.unparse(target) in sides for target in line.targets)
        for line in lines
    )


def _cuts(lines: list[ast.stmt]) -> bool:
    """Whether each time that nothing improves the rate is lowered: what is counted are the cuts, however far apart."""
    always = [line for line in lines if not isinstance(line, ast.If)]
    stored = [node for line in always for node in walk(line) if isinstance(node, ast.Subscript)]
    return any(isinstance(node.ctx, ast.Store) and getattr(node.slice, "value", "") == "lr" for node in stored)


def _is_reset(file: File, function: Function, count: ast.expr) -> bool:
    """Whether it begins again: anywhere in the loop around, or, of an attribute, anywhere but in the constructor."""
    if isinstance(count, ast.Name):
        loops = [node for node in function.nodes if isinstance(node, ast.For | ast.While) and _holds(node, count)]
        return not loops or len(stores_of(walk(loops[0]), count.id)) > 1
    name = own_attribute(count, function)
    if not name:
        return not isinstance(count, ast.Attribute) or _is_set_again(file, function, count)
    sets = function.cls.attribute(name) if function.cls is not None and name else []
    starts = [method for method, assigned in sets if not isinstance(assigned.node, ast.AugAssign)]
    if len(starts) != 1 or starts[0].name != "__init__":
        return True
    written = re.compile(rf"\.{name}\b[^=\n+]*(?<![!<>])=(?!=)|['\"]{name}['\"]|__dict__|setattr\(")
    return sum(len(written.findall(other.text)) for other in file.sites.mentioning([name], tests=True)) > 1


def _is_set_again(file: File, function: Function, count: ast.Attribute) -> bool:
    """Whether `state.bad_epochs` is ever assigned but in a constructor, or above the loop that counts it up."""
    name, owner = count.attr, count.value
    loops = [node for node in function.nodes if isinstance(node, ast.For | ast.While)]
    inside = {part for loop in loops for part in walk(loop)}
    if not isinstance(owner, ast.Name) or stores_of(inside, owner.id):
        return True
    for other in file.sites.mentioning([name], tests=True):
        if re.search(rf"['\"]{name}['\"]|__dict__|setattr\(|\breplace\(", other.text):
            return True
        for node in walk(other.module.source.tree):
            if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store):
                within = next((each for each in other.functions if node in each.nodes), None)
                counts = any(isinstance(line, ast.AugAssign) and line.target is node for line in function.nodes)
                starts = within is not None and within.name == "__init__"
                if not counts and not starts and (within is not function or node in inside):
                    return True
    return not loops


def _holds(loop: ast.For | ast.While, count: ast.expr) -> bool:
    return any(node is count for line in loop.body for node in walk(line))


def _ends(function: Function, count: ast.expr) -> bool:
    """Whether the training ends by the count: here, or, of an attribute, in another method of the object."""
    methods = function.cls.methods.values() if function.cls is not None and isinstance(count, ast.Attribute) else ()
    return any(_ends_by(each, count) or _answers_by(each, count) for each in {function: 0, **dict.fromkeys(methods)})


def _answers_by(function: Function, count: ast.expr) -> bool:
    """`return self.bad_epochs >= self.patience`, `self.stop = self.bad_epochs >= self.patience`."""
    answers = [(node.value, function.name) for node in function.all(ast.Return)]
    answers += [(node.value, last_name(node.targets[0])) for node in function.all(ast.Assign)]
    owner = function.cls.name if function.cls is not None else ""
    return any(
        isinstance(value, ast.Compare)
        and ast.unparse(count) in map(ast.unparse, _compared(value))
        and _STOPS.search(f"{name} {owner} {ast.unparse(value)}".lower()) is not None
        for value, name in answers
    )


def _ends_by(function: Function, count: ast.expr) -> bool:
    """Whether the training ends when the count gets too high."""
    text = ast.unparse(count)
    ends = (loop.test for loop in function.all(ast.While))
    if any(text in map(ast.unparse, _compared(test, lower=True)) for test in ends):
        return True
    for branch in branches(function.nodes) if any(map(_is_count, function.all(ast.AugAssign))) else ():
        compared = map(ast.unparse, _compared(branch.test))
        below = isinstance(branch.test, ast.Compare) and text in map(ast.unparse, _compared(branch.test, lower=True))
        lines = branch.held if text in compared else branch.other if below else []
        for line in (inner for part in lines for inner in walk(part)):
            flag = line.value if isinstance(line, ast.Assign) else None
            if isinstance(line, _ENDS) or (isinstance(flag, ast.Constant) and flag.value is True):
                return True
    return False


def _compared(test: ast.expr, lower: bool = False) -> Iterator[ast.expr]:
    """What stands on the higher side of the comparisons: `bad` of `bad >= patience` and of `patience < bad`."""
    for node in walk(test):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = (node.comparators[0], node.left) if lower else (node.left, node.comparators[0])
            if isinstance(node.ops[0], ast.Gt | ast.GtE) or (isinstance(node.ops[0], ast.Eq) and not lower):
                yield left
            if isinstance(node.ops[0], ast.Lt | ast.LtE) or (isinstance(node.ops[0], ast.Eq) and not lower):
                yield right
