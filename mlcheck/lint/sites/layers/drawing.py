"""The probabilities that an action or a class is drawn from."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Class
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.project import Sites

_DRAWS = ("torch.distributions.Categorical", "torch.distributions.categorical.Categorical")


def drawn_from(sites: Sites) -> frozenset[ast.AST]:
    """What is given to `Categorical(probs)`, also as what the `forward` of a module returns; it ends in the choices."""
    found = set[ast.AST]()
    for call in sites.calls(*_DRAWS):
        probs = call.argument("probs", 0)
        for origin in origins(call.file, probs, call.context) if probs is not None and probs is not OPEN else ():
            found |= {origin.node, *_returned(origin)}
    return frozenset(found)


def _returned(origin: Origin) -> set[ast.AST]:
    """What the module returns whose call this is."""
    found = set[ast.AST]()
    called = origin.node.func if isinstance(origin.node, ast.Call) else None
    for made in origins(origin.file, called, origin.context) if called is not None else ():
        cls = made.file.resolve(made.node.func, made.context) if isinstance(made.node, ast.Call) else None
        forward = cls.find("forward") if isinstance(cls, Class) else None
        if forward is not None:
            found |= {source(forward.file, node, forward.inner)[0] for node in returns(forward)}
    return found
