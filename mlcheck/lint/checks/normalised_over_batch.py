"""normalised-over-batch: embeddings are brought to length 1 feature by feature, over the samples of a batch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.similarities import Similarity, similarities
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "matrix of similarities"
WORDS = ("normalize(",)
_NORMALIZE = "torch.nn.functional.normalize"
_JOINED = ("torch.cat", "torch.concat", "torch.vstack")
_DEPTH = 3


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    told: set[ast.AST] = set()
    for found in facts.sites.once(similarities):
        facts.sites.seen[LOOKS_AT] += 1
        for call in (*_over_batch(found, found.left), *_over_batch(found, found.right)):
            if call.node not in told:
                told.add(call.node)
                yield Finding(
                    "This brings each feature to length 1 over the batch, and the rows that are compared have any "
                    "length: their similarities are no cosines, and depend on the other samples",
                    call.place.location,
                    help="`F.normalize(x, dim=1)`, or `dim=-1`: the dimension of the features",
                    related=(found.product.file.place(found.product.node, found.product.context).location,),
                )


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
