"""Transforms that are named for training, and handed to a data set."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.data.loaders import Loader
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import Origin, origins

_NAMED = pattern(r"(?=.*train)(?=.*(?:transform|aug|tfm?s?$|_tf_?))")
_DRAWS = pattern(r"\brand(?:n|int|om)?(?:_like)?\(|[Rr]andom")


def training_transform(loader: Loader) -> ast.expr | None:
    """`train_transforms()` of `Beats(x, y, train_transforms())`, of what draws at random."""
    data = loader.data[0] if len(loader.data) == 1 else None
    if data is None or not isinstance(data.node, ast.Call):
        return None
    given = [*data.node.args, *(word.value for word in data.node.keywords)]
    for each in given:
        if isinstance(each, ast.Name | ast.Attribute | ast.Call) and _NAMED.search(_name(each).lower()):
            found = origins(data.file, each, data.context)
            if found and all(_DRAWS.search("\n".join(_texts(origin))) for origin in found):
                return each
    return None


def _name(node: ast.expr) -> str:
    return last_name(node.func if isinstance(node, ast.Call) else node)


def _texts(origin: Origin) -> Iterator[str]:
    """What is written of it, and of the classes of the project that it is made of."""
    yield ast.unparse(origin.node)
    for node in walk(origin.node):
        named = origin.file.resolve(node.func, origin.context) if isinstance(node, ast.Call) else None
        if isinstance(named, Class | Function):
            yield named.text
