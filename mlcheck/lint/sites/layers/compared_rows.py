"""Embeddings that are compared row by row, and were brought to length 1 over the rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.sites.layers.similarities import Similarity, similarities
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_NORMALIZE = "torch.nn.functional.normalize"
_JOINED = ("torch.cat", "torch.concat", "torch.vstack")
_DEPTH = 3


def normalised_over_rows(sites: Sites) -> Iterator[Place]:
    """`z = F.normalize(z, dim=0)`, and a softmax of `z @ z.T`."""
    if any(True for _ in sites.mentioning(["normalize("])):
        for found in sites.once(similarities):
            for side in (found.left, found.right):
                yield from (call.place for call in _over_batch(found, side))


def _over_batch(found: Similarity, side: ast.expr) -> Iterator[Call]:
    """The calls of `normalize(..., dim=0)` that the rows of one side come from, whole or piece by piece."""
    todo = [(found.product._replace(node=side), _DEPTH)]
    while todo:
        here, depth = todo.pop()
        for made in origins(here.file, here.node, here.context):
            if made.name == _NORMALIZE:
                assert isinstance(made.node, ast.Call)
                call = Call(made.file, made.node, made.context)
                dim = call.constant("dim", 2)
                if dim == 0 and dim is not False:
                    yield call
            elif depth and made.name in _JOINED:
                todo += [(each, depth - 1) for each in _pieces(made)]


def _pieces(joined: Origin) -> list[Origin]:
    """The rows of `torch.cat([first, second])`."""
    match joined.node:
        case ast.Call(args=[ast.List(elts=rows) | ast.Tuple(elts=rows)], keywords=[]):
            return [joined._replace(node=each) for each in rows]
    return []
