"""Samplers of a project that draw by the number of the epoch, as the distributed one that they derive from does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.project import Sites

_SAMPLERS = frozenset(["torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler"])
_DRAWS = pattern(r"\bself\.epoch\b")
_COUNTS = pattern(r"\bself\.epoch\s*(?:\+=|=\s*self\.epoch)|\bself\.set_epoch\(|\bepoch\.value\b")


def heirs(sites: Sites) -> list[Call]:
    """The calls that make such a sampler; `sites.once(heirs)`. One that counts its epochs itself is not told them."""
    return list(_made(sites))


def _made(sites: Sites) -> Iterator[Call]:
    for cls in sites.classes:
        if not cls.libraries & _SAMPLERS or not _draws_by_epoch(cls):
            continue
        for file in sites.mentioning([cls.name]):
            for call in file.calls(cls.name, *file.walk.aliases.get(cls.name, ())):
                if file.resolve(call.node.func, call.context) is cls:
                    yield call


def _draws_by_epoch(cls: Class) -> bool:
    own = cls.find("__iter__")
    texts = [each.text for each in cls.line]
    if any(map(_COUNTS.search, texts)):
        return False
    return own is None or _DRAWS.search(own.text) is not None


def _is_one_of_kinds(sampler: Call) -> bool:
    """Whether a function makes it if it is asked for by a word, `if kind == "distributed":`: those may not shuffle."""
    names = sampler.function.parameters if sampler.function is not None else {}
    for around in sampler.context.outwards():
        test = around.node.test if isinstance(around.node, ast.If) and around.arm == "body" else None
        match test:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.Is()]) if name in names:
                return True
    return False


def shuffles(sampler: Call) -> bool:
    """Whether it shuffles for certain: torch's own by default, an heir by what it is given or its default says."""
    cls = sampler.file.resolve(sampler.node.func, sampler.context)
    if not isinstance(cls, Class):
        told = sampler.constant("shuffle", 3, True)
        return told is not False if isinstance(told, bool) else not _is_one_of_kinds(sampler)
    made = cls.find("__init__")
    if made is None:
        return sampler.constant("shuffle", 3, True) is True
    if "shuffle" not in made.parameters:
        return False
    default = made.parameters["shuffle"]
    position = list(made.parameters).index("shuffle") - 1
    return sampler.constant("shuffle", position, isinstance(default, ast.Constant) and default.value is True) is True
