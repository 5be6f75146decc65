"""Orders that a module draws at random when it is made, and goes by when it computes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_attribute, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import is_plain, module_classes
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet

_DRAWN = ("torch.randperm", "numpy.random.permutation")
_LOADS = "load_state_dict("


class RandomOrder(NamedTuple):
    """`self.order = torch.randperm(n)` in the constructor, and where `forward` goes by it."""

    name: str
    cls: Class
    function: Function
    assigned: AttributeSet
    used: ast.AST


def random_orders(sites: Sites) -> Iterator[RandomOrder]:
    """Those that no checkpoint holds, in programs that load weights: each object draws another one."""
    if not any(True for _ in sites.mentioning([_LOADS])):
        return
    for cls in sites.once(module_classes):
        for name, found in cls.attributes.items() if is_plain(cls) else ():
            function, assigned = found[0]
            if len(found) > 1 or function.name != "__init__" or not _is_drawn(cls, assigned):
                continue
            forward = cls.find("forward")
            used = _index_by(forward, name) if forward is not None else None
            if used is not None:
                yield RandomOrder(name, cls, function, assigned, used)


def _is_drawn(cls: Class, assigned: AttributeSet) -> bool:
    """By nothing but chance: a generator with a seed of its own draws the same again."""
    if assigned.value is None:
        return False
    made, where = source(cls.file, assigned.value, assigned.context)
    if not isinstance(made, ast.Call) or any(keyword.arg == "generator" for keyword in made.keywords):
        return False
    return cls.file.resolve(made.func, where) in _DRAWN


def _index_by(forward: Function, name: str) -> ast.AST | None:
    """`x[:, self.order]`."""
    for node in forward.nodes:
        if isinstance(node, ast.Subscript):
            if any(is_attribute(part, forward.receiver, name) for part in walk(node.slice)):
                return node
    return None
