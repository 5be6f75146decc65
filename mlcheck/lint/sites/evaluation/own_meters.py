"""Metric classes of the project whose objects count through all epochs, as neither they nor anybody begins anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_COUNTS = pattern(r"acc|correct|hits?\b|iou|dice|f1|precision|recall|confusion|metric|error", re.IGNORECASE)
_ANEW = pattern(r"reset|clear|restart|renew|zero|flush|__enter__|__setattr__|setattr|__dict__|__init__\(\)")
_EVALUATES = pattern(r"eval|valid|test", re.IGNORECASE)


class OwnMeter(NamedTuple):
    """Where a batch of an evaluation is added to a meter, the meter's name, and where it was made, once for all."""

    added: Call
    name: str
    made: Place


def counting_on(sites: Sites) -> Iterator[OwnMeter]:
    """`acc = Accuracy()` before the epochs, `acc.add(scores, labels)` for each batch of each evaluation."""
    for file in sites.mentioning(["self."]) if sites.uses_torch else ():
        for cls in file.classes if "+=" in file.text and "__init__" in file.text else ():
            adding = _adding(cls)
            if not adding or not _COUNTS.search(cls.text) or _ANEW.search(cls.text) or _is_set_outside(cls):
                continue
            for made in callers(sites, cls.methods["__init__"]):
                yield from _uses(made, adding)


def _adding(cls: Class) -> list[str]:
    """The methods that add to totals which begin at zero, where the class also divides one total by another."""
    if "__init__" not in cls.methods or len(cls.line) > 1:
        return []
    zero = {
        name
        for name, sets in cls.attributes.items()
        if all(function.name == "__init__" or assigned.value is None for function, assigned in sets)
        and any(isinstance(a.value, ast.Constant) and a.value.value == 0 for _, a in sets)
    }
    adds = {
        line.target.attr: method.name
        for method in cls.methods.values()
        for line in method.all(ast.AugAssign)
        if isinstance(line.target, ast.Attribute) and line.target.attr in zero and isinstance(line.op, ast.Add)
    }
    for node in walk(cls.node) if len(adds) > 1 else ():
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Attribute(attr=count)) if count in adds:
                parts = {part.attr for part in walk(left) if isinstance(part, ast.Attribute)}
                if parts & adds.keys() - {count}:
                    return sorted(set(adds.values()))
    return []


def _is_set_outside(cls: Class) -> bool:
    """Whether other code sets one of the totals."""
    totals = "|".join(map(re.escape, cls.attributes))
    sets = re.compile(rf"\.(?:{totals})\s*(?:,[^=\n]*)?=[^=]")
    inside = len(sets.findall(cls.text))
    files = cls.file.sites.mentioning(list(cls.attributes), tests=True)
    return sum(len(sets.findall(file.text)) for file in files) > inside


def _uses(made: Call, adding: list[str]) -> Iterator[OwnMeter]:
    """The evaluations that add to the one object, each time they are called in a loop."""
    sites, names = made.file.sites, made.file.names_given(made.node)
    if made.loops or len(names) != 1:
        return
    for method in adding:
        for file in sites.calling([method]):
            for added in file.calls(method):
                function = added.function
                if not added.loops or function is None or not _is_evaluation(function):
                    continue
                owner = added.owner
                if isinstance(owner, ast.Attribute) and owner.attr == names[0]:
                    own = made.cls is not None and made.cls is function.cls and made.function is not None
                    if own and made.function and made.function.name == "__init__" and _is_called_again(function):
                        yield OwnMeter(added, ast.unparse(owner), made.place)
                elif isinstance(owner, ast.Name) and owner.id in function.parameters:
                    if any(call.loops and _gives(call, function, owner.id, made) for call in callers(sites, function)):
                        yield OwnMeter(added, owner.id, made.place)


def _is_evaluation(function: Function) -> bool:
    return _EVALUATES.search(function.name) is not None or ".eval()" in function.text


def _is_called_again(function: Function) -> bool:
    return any(call.loops for call in callers(function.file.sites, function))


def _gives(call: Call, function: Function, parameter: str, made: Call) -> bool:
    """Whether a call in a loop hands on what was made before that loop."""
    names = [name for name in function.parameters if name != function.receiver]
    given = call.argument(parameter, names.index(parameter))
    name = made.file.names_given(made.node)[0]
    if call.file is not made.file or call.function is not made.function or last_name(given) != name:
        return False
    return not isinstance(given, ast.Name) or (
        is_name(given, name) and len(call.file.bindings(name, call.context)) == 1
    )
