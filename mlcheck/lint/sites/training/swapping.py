"""Averaged weights that are put into the model for a while: what keeps the model's own, and what gives them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites

_WRITES = pattern(r"\.copy_\(|\.data = |load_state_dict\(")
_TRAINS = ("backward", "manual_backward")
_OTHERS = ("getattr(", "__exit__", "contextmanager")


def never_given_back(sites: Sites) -> Iterator[Finding]:
    """A call in a training loop that swaps the average in, of a class whose method that swaps it out nobody calls."""
    for cls in sites.classes:
        text = cls.text
        if "parameters()" not in text or any(word in text for word in _OTHERS):
            continue
        for swap, back, name in _pairs(cls):
            if sites.is_named(back.name, times=2):
                continue
            for file in sites.mentioning([f".{swap.name}("]):
                for call in file.calls(swap.name):
                    if call.cls is not cls and name not in file.text and _goes_on_training(call):
                        yield Finding(
                            f"`{swap.name}` puts the average into the model, and nothing calls `{back.name}`: "
                            "training goes on from it",
                            call.place.location,
                            help=f"call `{back.name}` after the evaluation",
                            related=(back.place().location,),
                        )


def _pairs(cls: Class) -> Iterator[tuple[Function, Function, str]]:
    """Two methods that write weights: one keeps them in `self.backup` first, the other takes them from there."""
    writes = [method for method in cls.methods.values() if _WRITES.search(method.text)]
    for swap in writes:
        for name in _kept(swap):
            for back in writes:
                if back is not swap and name not in _kept(back) and _reads(back, name):
                    yield swap, back, name


def _kept(method: Function) -> set[str]:
    """`backup` of `self.backup[name] = p.data.clone()` and `self.backup = {...}`, which the method does not read."""
    found = set()
    for node in method.nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        filled = isinstance(target, ast.Subscript)
        owner = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(node, ast.Assign) and isinstance(owner, ast.Attribute) and ast.unparse(owner.value) == "self":
            if (filled or isinstance(node.value, ast.DictComp)) and "clone" in ast.unparse(node.value):
                found.add(owner.attr)
    return {name for name in found if not _reads(method, name)}


def _reads(method: Function, name: str) -> bool:
    """Whether entries of `self.name` are read."""
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == f"self.{name}"
        for node in method.nodes
    )


def _goes_on_training(call: Call) -> bool:
    """Whether a loop around the call trains as well."""
    inside = (node for loop in call.loops for node in walk(loop.node))
    return any(isinstance(node, ast.Attribute) and node.attr in _TRAINS for node in inside)
