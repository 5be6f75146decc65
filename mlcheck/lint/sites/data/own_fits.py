"""Data sets that fit their preprocessing to whatever they hold, and are made of the training data and of others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet, Context
from mlcheck.lint.values import split_of_name

_FITS = frozenset(["fit", "fit_transform"])
_VOCABULARY = pattern(r"vocab|(?:word|token|tok|char)s?_?(?:2|to)_?(?:id|ids|idx|index|ix|i)$|^stoi$", re.IGNORECASE)
_TARGETS = pattern(r"label|target|class|\by\b", re.IGNORECASE)
_TEXTS = pattern(r"text|sent|word|token|corpus|rows|doc|review|line|caption|quest|char|data", re.IGNORECASE)


class OwnFit(NamedTuple):
    """What is fitted, where, and a data set of held-out data that does so for itself."""

    what: str
    function: Function
    node: ast.expr
    held_out: Call


def own_fits(sites: Sites) -> Iterator[OwnFit]:
    """`self.encoder.fit_transform(frame)` or `self.vocab = Vocab(self.texts)`, in `__init__` of a data set."""
    for file in sites.mentioning(["__getitem__"]) if sites.uses_torch else ():
        for cls in file.classes:
            init = cls.methods.get("__init__")
            if init is None or "__getitem__" not in cls.methods:
                continue
            found = [*_fitted(cls, init), *_vocabularies(cls, init)]
            held_out = _of_another_split(init) if found else None
            if held_out is not None:
                yield from (OwnFit(what, init, node, held_out) for what, node in found)


def _fitted(cls: Class, init: Function) -> Iterator[tuple[str, ast.expr]]:
    """Calls of `fit` in each construction, of what the constructor itself has made."""
    if "sklearn" not in cls.file.text:
        return
    for call in cls.file.calls(*_FITS):
        if call.function is not init or _may_be_left_out(call.context) or not call.node.args:
            continue
        if any(call.node in walk(choice) for choice in (*init.all(ast.BoolOp), *init.all(ast.IfExp))):
            continue
        if _TARGETS.search(ast.unparse(call.node.args[0])):
            continue  # of the same classes the numbers are the same
        owner = call.owner
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        made = _made_here(cls, init, owner, call)
        if made:
            yield f"`{made}`", call.node
            return


def _made_here(cls: Class, init: Function, owner: ast.expr | None, call: Call) -> str:
    """The class of sklearn that the constructor makes for itself, on every path."""
    values: list[tuple[ast.expr | None, Context]] = [(owner, call.context)] if isinstance(owner, ast.Call) else []
    if name := own_attribute(owner, init):
        sets = cls.attribute(name)
        values = [(assigned.value, assigned.context) for where, assigned in sets if where is init and len(sets) == 1]
    elif isinstance(owner, ast.Name):
        bound = cls.file.bindings(owner.id, call.context)
        values = [(b.value, b.context) for b in bound if len(bound) == 1 and isinstance(b.value, ast.expr)]
    for value, context in values:
        if value is None or isinstance(value, ast.BoolOp | ast.IfExp) or _may_be_left_out(context):
            continue
        for node in walk(value):
            named = cls.file.resolve(node.func, context) if isinstance(node, ast.Call) else None
            if isinstance(named, str) and named.startswith("sklearn.preprocessing."):
                return named.rpartition(".")[2]
    return ""


def _vocabularies(cls: Class, init: Function) -> Iterator[tuple[str, ast.expr]]:
    """`self.vocab = Vocab(self.texts)`, which nobody replaces by that of another data set."""
    for name, sets in cls.attributes.items():
        if not _VOCABULARY.search(name) or len(sets) != 1 or sets[0][0] is not init:
            continue
        assigned = sets[0][1]
        if _is_built(init, assigned) and not _may_be_left_out(assigned.context) and not _is_replaced(cls, name):
            if assigned.value is not None:
                yield f"`{name}`", assigned.value
                return


def _is_built(init: Function, assigned: AttributeSet) -> bool:
    """Whether it is built of texts: not read from a file, nor handed in."""
    value = assigned.value
    if not isinstance(value, ast.Call | ast.DictComp) or isinstance(value, ast.BoolOp):
        return False
    names = {last_name(node) for node in walk(value) if isinstance(node, ast.Name | ast.Attribute)}
    given = {name for name in names if name in init.parameters and name != init.receiver}
    if isinstance(value, ast.Call):
        called = init.file.resolve(value.func, assigned.context)
        builds = isinstance(called, Class | Function) and re.search("vocab|build", called.name, re.IGNORECASE)
        if not builds or "self" in {last_name(arg) for arg in value.args}:
            return False
        parts = (node for arg in value.args for node in walk(arg))
        names = {last_name(node) for node in parts if isinstance(node, ast.Name | ast.Attribute)}
    return not any(_VOCABULARY.search(name) or "path" in name for name in given) and any(map(_TEXTS.search, names))


def _may_be_left_out(context: Context) -> bool:
    return any(outer.kind in ("if", "try") for outer in context.outwards())


def _is_replaced(cls: Class, name: str) -> bool:
    sets = re.compile(rf"\.{name}\s*=[^=]|setattr\(")
    return sum(len(sets.findall(f.text)) for f in cls.file.sites.mentioning([name], tests=True)) > 1


def _of_another_split(init: Function) -> Call | None:
    """The held-out one of two data sets that are made of the class: one to train on, of other arguments."""
    made: dict[str, list[Call]] = {}
    for call in callers(init.file.sites, init):
        splits = {split for name in call.file.names_given(call.node) if (split := split_of_name(name))}
        if len(splits) == 1:
            made.setdefault(splits.pop(), []).append(call)
    held_out = [*made.get("val", ()), *made.get("test", ())]
    if not held_out or "train" not in made:
        return None
    trained = ast.dump(made["train"][0].node)
    return next((call for call in held_out if ast.dump(call.node) != trained), None)
