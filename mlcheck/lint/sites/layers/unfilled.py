"""Parameters that are made of memory as it is, and are filled by nobody."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_attribute
from mlcheck.lint.sites.layers.filling import fills_of, is_parameter
from mlcheck.lint.sites.layers.initialising import FILLS
from mlcheck.lint.sites.layers.modules import is_plain, module_classes
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites

_EMPTY = ("torch.empty", "torch.Tensor", "torch.FloatTensor")
_PREPARES = pattern(r"__init__|init|reset|param|weight|load|build|fill|set_")
_LOADS = pattern(
    r"load_state_dict|torch\.load|from_pretrained|(?<!utils)\.data\b|init\.|_parameters\(|\bmodules\(|\.apply\("
)
_OF_ALL = pattern(r"\.(?:named_)?parameters\(|state_dict|\bmodules\(|\.apply\(|[gs]etattr\(|deepcopy")


def unfilled(sites: Sites) -> Iterator[tuple[str, str, Place]]:
    """`self.u` and `self.v` of `torch.empty`, and an initialisation that fills `self.u` alone: both names, and where.

    Each in the class that makes them, where no method but those that compute with it reads the other. Or one that is
    trained, in a program that fills and loads nothing at all: the second name is "" then.
    """
    alone = any(True for _ in sites.mentioning([".backward("])) and not any(
        FILLS.search(file.text) or _LOADS.search(file.text) for file in sites.files.values()
    )
    for cls in sites.once(module_classes):
        if "empty(" not in cls.text and "Tensor(" not in cls.text:
            continue
        made = {name: sets[0] for name, sets in cls.attributes.items() if len(sets) == 1 and _is_of_memory(cls, name)}
        filled = {name for method in cls.methods.values() for _, name in fills_of(method)}
        rest = made.keys() - filled
        if (len(rest) == len(made) and not alone) or not rest or not is_plain(cls) or _OF_ALL.search(cls.text):
            continue
        for name in rest:
            if not _is_seen_to(sites, cls, name):
                method, assigned = made[name]
                yield name, min(made.keys() & filled, default=""), method.place(assigned.node)


def _is_of_memory(cls: Class, name: str) -> bool:
    """`nn.Parameter(torch.empty(n, m))`, `nn.Parameter(torch.Tensor(n, m))`: of sizes, not of numbers."""
    method, assigned = cls.attributes[name][0]
    if assigned.value is None or not is_parameter(cls, assigned.value, assigned):
        return False
    inner = assigned.value.args[0] if isinstance(assigned.value, ast.Call) and assigned.value.args else None
    if not isinstance(inner, ast.Call) or cls.file.called(inner, assigned.context) not in _EMPTY or not inner.args:
        return False
    listed = isinstance(inner.args[0], ast.List | ast.ListComp)
    return method.name == "__init__" and not (listed and not cls.file.called(inner, assigned.context).endswith("empty"))


def _is_seen_to(sites: Sites, cls: Class, name: str) -> bool:
    """Whether anything may fill it: a method that prepares, or someone else who speaks of it."""
    word = re.escape(name)
    changed = re.compile(
        rf"\.{word}(?:\.data)?(?:\[[^\]]*\])?\.\w+_\(|\.{word}(?:\.data|\[[^\]]*\]) *[-+*/]?=(?!=)|_\([\w.]*\.{word}\b"
        rf"|[\"']{word}[\"']"
    )
    if any(changed.search(file.text) for file in sites.mentioning([name], tests=True)):
        return True
    return any(
        _PREPARES.search(method.name) and _reads(method, name) for base in cls.line for method in base.methods.values()
    )


def _reads(method: Function, name: str) -> bool:
    return any(
        is_attribute(node, method.receiver, name) and isinstance(node.ctx, ast.Load)
        for node in method.all(ast.Attribute)
    )
