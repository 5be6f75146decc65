"""Tensors that ask for gradients, kept by an object that is no module, where no optimizer can find them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_PLAIN = frozenset(["builtins.object", "abc.ABC"])
_MAKERS = frozenset(f"torch.{name}" for name in ("zeros", "ones", "rand", "randn", "full", "tensor"))
_BY_HAND = pattern(r"\.grad\b|\boptim|\.data\b|no_grad|autograd|param_group|backward|__dict__|vars\(|getattr")


class Leaf(NamedTuple):
    """The tensor, by the attribute that keeps it, and an optimizer of the program."""

    place: Place
    name: str
    made: Place


def out_of_reach(sites: Sites) -> Iterator[Leaf]:
    """`self.log_vars = [torch.zeros(1, requires_grad=True) for _ in tasks]`, which only methods of the class read."""
    made = sites.once(optimizers)
    if not made or not any(True for _ in sites.mentioning([".backward("])):
        return
    for file in sites.mentioning(["requires_grad=True"]):
        for cls in file.classes:
            if cls.libraries - _PLAIN or _BY_HAND.search(cls.text) or cls.node.decorator_list:
                continue
            for name, assigned in cls.attributes.items():
                function, first = assigned[0]
                if len(assigned) != 1 or function.name != "__init__" or first.value is None:
                    continue
                asks = any(_is_leaf(cls, node) for node in _kept(first.value))
                if asks and _is_used(cls, name) and not _is_handed_out(cls, name) and not _is_read(sites, cls, name):
                    yield Leaf(function.place(first.node), name, made[0].place)


def _kept(value: ast.expr) -> list[ast.expr]:
    """The tensors of `[a, b]`, `[make() for _ in range(2)]` and `{"a": make()}`, and the tensor itself."""
    if isinstance(value, ast.List | ast.Tuple):
        return value.elts
    if isinstance(value, ast.ListComp):
        return [value.elt]
    return value.values if isinstance(value, ast.Dict) else [value]


def _is_leaf(cls: Class, node: ast.expr) -> bool:
    asked = isinstance(node, ast.Call) and any(
        word.arg == "requires_grad" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in node.keywords
    )
    return asked and cls.file.called(node, cls.defined.inner) in _MAKERS


def _is_used(cls: Class, name: str) -> bool:
    return any(
        own_attribute(node, method) == name and isinstance(node.ctx, ast.Load)
        for method in cls.methods.values()
        for node in method.all(ast.Attribute)
    )


def _is_handed_out(cls: Class, name: str) -> bool:
    """Whether a method returns it, alone or among others."""
    return any(
        own_attribute(part, method) == name
        for method in cls.methods.values()
        for answer in returns(method)
        for part in ([answer] if isinstance(answer, ast.Attribute) else getattr(answer, "elts", []))
    ) or any(
        own_attribute(part, method) == name
        for method in cls.methods.values()
        if "parameters" in method.name or "yield" in method.text
        for part in walk(method.node)
        if isinstance(part, ast.Attribute)
    )


def _is_read(sites: Sites, cls: Class, name: str) -> bool:
    """Whether code outside the class names it."""
    asked = re.compile(rf"\.{name}\b|[\"']{name}[\"']")
    for file in sites.mentioning([name], tests=True):
        text = file.text.replace(cls.text, "") if file is cls.file else file.text
        if asked.search(text):
            return True
    return False
