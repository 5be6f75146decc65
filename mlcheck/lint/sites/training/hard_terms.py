"""Terms of a loss that are computed of decisions, `(scores > 0.5).float()`, which have no gradient."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.hard_values import LOSS, Gradients

_DECIDES = ("argmax(", ".round(", ".gt(", ".ge(", ".indices")
_MAXIMUM = pattern(r"max\((?<!\wmax\()")  # begins with a word, not with `\b`: that is tried at every character
_COMPARES = pattern(r"[<>]=? ?(?:0?\.\d|self\.\w*thr|thr)")


class HardTerm(NamedTuple):
    """The term as it is written, the decision that it is computed of, and the sum that it is added to."""

    term: str
    decision: Place
    sum: Place


def hard_terms(sites: Sites) -> Iterator[HardTerm]:
    """`return bce + dice(preds > 0.5, mask)`, and the same sum where it is the `loss` of a `backward`."""
    if not sites.uses_torch:
        return
    deciding = _deciding(sites)
    if deciding is None:
        return
    told = set()
    for file in sites.mentioning(["loss", "Loss"]):
        for function in file.functions if deciding.search(file.text) or _says_decision(file.text) else ():
            for value, context in _sums(function):
                for term in _hard(function, value, context, deciding):
                    if term.decision.spot not in told:
                        told.add(term.decision.spot)
                        yield term


def _deciding(sites: Sites) -> re.Pattern[str] | None:
    """The names of the functions that decide something, and of the classes whose `forward` does."""
    names = set()
    for file in sites.mentioning(["argmax", "round", ">", "max", "indices", "gt", "ge"]):
        for function in file.functions if _says_decision(file.text) else ():
            if _says_decision(function.text):
                of_class = function.cls is not None and function.name == "forward"
                names.add(function.cls.name if of_class and function.cls is not None else function.name)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b") if names else None


def _says_decision(text: str) -> bool:
    """Whether it takes a maximum, rounds, or compares with a threshold."""
    if any(word in text for word in _DECIDES) or _MAXIMUM.search(text):
        return True
    return (">" in text or "<" in text) and _COMPARES.search(text) is not None


def _hard(function: Function, value: ast.expr, context: Context, deciding: re.Pattern[str]) -> Iterator[HardTerm]:
    around = function.cls.text if function.cls is not None else function.text
    if not deciding.search(around):
        return
    terms = list(_added(value))
    gradients = Gradients(function)
    found = [gradients.of(term, context) for term in terms]
    if any(each.kind == "live" for each in found):
        for term, each in zip(terms, found, strict=True):
            if each.kind == "hard" and each.decision is not None:
                yield HardTerm(ast.unparse(term), each.decision, function.place(value))


def _sums(function: Function) -> Iterator[tuple[ast.expr, Context]]:
    """What a loss returns, and what is differentiated right where it is added up."""
    named = function.name + (function.cls.name if function.cls is not None else "")
    if LOSS.search(named.lower()):
        for value in returns(function):
            if isinstance(value, ast.BinOp):
                yield value, function.inner
            elif isinstance(value, ast.Name) and (made := latest(function.file, value, function.inner)) is not None:
                if isinstance(made.value, ast.BinOp):
                    yield made.value, made.context
    if ".backward(" not in function.text:
        return
    for node in function.file.nodes_in(function.node):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() as value):
                if f"{name}.backward(" in function.text or f"scale({name}).backward(" in function.text:
                    bound = [b for b in function.inner.scope.bindings.get(name, []) if b.value is value]
                    yield from ((value, each.context) for each in bound)


def _added(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _added(node.left)
        yield from _added(node.right)
    else:
        yield node
