"""Objects that notice when training should end, and that nobody asks whether it should."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.project import Sites

_STOPS = pattern(r"stop|early|halt|should_end", re.IGNORECASE)
_PLAIN = frozenset(["builtins.object", "abc.ABC"])
_ENDS = pattern(r"\bexit\(|(?<!self)\.\w*(?:stop|terminate|halt)\w*(?: = |\()", re.IGNORECASE)
_ASKED_BY_NAME = ("getattr(", "__dict__", "vars(")


class Unheard(NamedTuple):
    """Where the object is told a score, what would say that training should end, and where that is set."""

    place: Place
    flag: str
    told: Place


def unheard(sites: Sites) -> Iterator[Unheard]:
    """`stopper(loss)` in a loop that trains, where nothing reads `stopper.early_stop` or what the call returns."""
    for file in sites.mentioning(["stop", "Stop", "early", "halt"]):
        for cls in file.classes:
            if cls.libraries - _PLAIN or any(word in cls.text for word in _ASKED_BY_NAME):
                continue
            for method in cls.methods.values():
                told = _told(cls, method)
                calls = list(callers(sites, method)) if told is not None and method.name != "__init__" else []
                if told is None or not calls or not all(map(_is_dropped, calls)) or _ends_itself(cls):
                    continue
                trains = [call for call in calls if _is_in_training(call)]
                if len(trains) == len(calls) and not any(_is_read(sites, flag) for flag, _ in told):
                    yield Unheard(calls[0].place, told[0][0], told[0][1])
    yield from _of_owners(sites)


def _of_owners(sites: Sites) -> Iterator[Unheard]:
    """`trainer.should_stop = True` of a callback, where `Trainer` begins with `False` and nothing reads it."""
    for file in sites.mentioning(["stop", "Stop", "early", "halt"]):
        for cls in file.classes:
            for method in cls.methods.values() if not cls.libraries - _PLAIN else ():
                for line in method.all(ast.Assign) if _counts(method) else ():
                    flag, value = last_name(line.targets[0]), line.value
                    owner = line.targets[0].value if isinstance(line.targets[0], ast.Attribute) else None
                    given = isinstance(owner, ast.Name) and owner.id in list(method.parameters)[1:]
                    if given and _STOPS.search(flag) and isinstance(value, ast.Constant) and value.value is True:
                        begun = _begun_false(sites, flag)
                        if begun is not None and not _is_read(sites, flag):
                            yield Unheard(method.place(line), flag, begun)


def _begun_false(sites: Sites, flag: str) -> Place | None:
    """Where the one class that has such a flag, a class that trains by itself, sets it to False at first."""
    owners = [cls for file in sites.mentioning([flag]) for cls in file.classes if cls.attributes.get(flag)]
    if len(owners) != 1 or owners[0].libraries - _PLAIN or ".backward(" not in owners[0].text:
        return None
    if any(word in owners[0].text for word in _ASKED_BY_NAME):
        return None
    for method, kept in owners[0].attributes[flag]:
        if isinstance(kept.value, ast.Constant) and kept.value.value is False and method.name == "__init__":
            return method.place(kept.node)
    return None


def _told(cls: Class, method: Function) -> list[tuple[str, Place]] | None:
    """The attributes that the method sets to True behind a count, and the count that it returns an answer about.

    None where it tells neither.
    """
    found = []
    for branch in method.all(ast.If):
        for line in (node for part in branch.body for node in walk(part)):
            name = own_attribute(line.targets[0], method) if isinstance(line, ast.Assign) else ""
            if isinstance(line, ast.Assign) and name and _STOPS.search(name):
                if isinstance(line.value, ast.Constant) and line.value.value is True and _counts(method):
                    found.append((name, method.place(line)))
    given = list(returns(method))
    answers: list[ast.expr] = [value for value in given if isinstance(value, ast.Compare) and len(value.ops) == 1]
    if {value.value for value in given if isinstance(value, ast.Constant)} == {True, False}:
        answers += given
    answered = answers[:1] if _counts(method) and _STOPS.search(cls.name) else []
    found += [(f"{method.name}()", method.place(value)) for value in answered]
    return found or None


def _counts(method: Function) -> bool:
    """`self.counter += 1`."""
    return any(own_attribute(line.target, method) for line in method.all(ast.AugAssign))


def _ends_itself(cls: Class) -> bool:
    """Whether it ends the run by itself: it raises, exits, or sets a flag of whom it is given."""
    raises = any(method.all(ast.Raise) for method in cls.methods.values())
    return raises or _ENDS.search(cls.text) is not None


def _is_dropped(call: Call) -> bool:
    """Whether it is a statement of its own."""
    return call.node in call.file.statements


def _is_in_training(call: Call) -> bool:
    """Right in a loop that trains, itself or by functions that it calls."""
    loop = call.loops[-1].node if call.loops else None
    if loop is None:
        return False
    for node in walk(loop):
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            return True
        named = call.file.resolve(node.func, call.context) if isinstance(node, ast.Call) else None
        if isinstance(named, Function) and ".backward(" in named.text:
            return True
    return False


def _is_read(sites: Sites, flag: str) -> bool:
    """Whether an attribute of that name is read anywhere, by its name or by a string."""
    if flag.endswith("()"):
        return False
    asked = re.compile(rf"\.{flag}\b(?!\s*=[^=])|[\"']{flag}[\"']")
    return any(asked.search(file.text) for file in sites.mentioning([flag], tests=True))
