"""Products of embeddings with embeddings that a softmax compares: what contrastive losses are made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_FUNCTIONS = (
    "torch.nn.functional.cross_entropy",
    "torch.nn.functional.log_softmax",
    "torch.nn.functional.softmax",
    "torch.log_softmax",
    "torch.softmax",
)
_LOSS = "torch.nn.CrossEntropyLoss"
_PRODUCTS = ("torch.matmul", "torch.mm")
_TURNS = (".T", ".t()", "transpose(", "permute(")
_TIMES = pattern(r"[\w)\]][ \t]*@|matmul\(|\bmm\(")
_TEMPERATURE = pattern(r"(?:^|_)(?:temp|temperature|tau)$", words=["temp", "tau"])
_SAME = ("float", "contiguous", "to", "cuda", "double", "half", "type_as")
_DEPTH = 8


class Similarity(NamedTuple):
    """`left @ right.T`, where it stands, what it is multiplied by on its way, and the softmax or loss that takes it."""

    product: Origin
    left: ast.expr
    right: ast.expr
    factors: tuple[Origin, ...]
    taken: Call

    @property
    def is_loss(self) -> bool:
        return last_name(self.taken.node.func) not in ("softmax", "log_softmax")


def similarities(sites: Sites) -> tuple[Similarity, ...]:
    """Every one of the program; `sites.once(similarities)`."""
    return tuple(_all(sites))


def _all(sites: Sites) -> Iterator[Similarity]:
    if not any(_TIMES.search(file.text) for file in sites.mentioning(_TURNS)):
        return
    for call, scores in _compared(sites):
        here, factors = Origin(call.file, scores, call.context), list[Origin]()
        for _ in range(_DEPTH):
            found = _behind(here)
            if found is None:
                break
            here = found
            if (sides := _sides(here)) is not None:
                yield Similarity(here, *sides, tuple(factors), call)
                break
            inner = _scaled(here, factors)
            if inner is None:
                break
            here = here._replace(node=inner)


def _behind(here: Origin) -> Origin | None:
    """What a name was last given, be it made of what it was before; else the one thing a value may come from."""
    node, context = source(here.file, here.node, here.context)
    found = origins(here.file, node, context)
    return found[0] if len(found) == 1 else None


def _compared(sites: Sites) -> Iterator[tuple[Call, ast.expr]]:
    """Calls of a softmax, or of cross-entropy, with the scores that they are given."""
    for call in sites.calls(*_FUNCTIONS):
        scores = call.argument("input", 0)
        if scores is not None and scores is not OPEN:
            yield call, scores
    if not any(True for _ in sites.mentioning(["CrossEntropyLoss("])):
        return
    for file in sites.mentioning(_TURNS):
        for node, context in (pair for calls in file.walk.calls.values() for pair in calls):
            if len(node.args) == 2 and not node.keywords and file.resolve(node.func, context) is None:
                made = origins(file, node.func, context)
                if made and all(each.name == _LOSS for each in made):
                    yield Call(file, node, context), node.args[0]


def _sides(here: Origin) -> tuple[ast.expr, ast.expr] | None:
    """`x` and `y` of `x @ y.T`, `torch.mm(x, y.t())`, `x.matmul(y.transpose(0, 1))`."""
    match here.node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            pass
        case ast.Call(args=[left, right]) if here.name in _PRODUCTS:
            pass
        case ast.Call(func=ast.Attribute(value=left, attr="mm" | "matmul"), args=[right]) if not here.name:
            pass
        case _:
            return None
    inner = _turned(right)
    return None if inner is None else (left, inner)


def _turned(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Attribute(value=inner, attr="T" | "mT"):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="t"), args=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="transpose" | "permute"), args=[_, _] as order):
            return inner if {ast.unparse(each) for each in order} in ({"0", "1"}, {"-1", "-2"}) else None
    return None


def _scaled(here: Origin, factors: list[Origin]) -> ast.expr | None:
    """The scores that are multiplied, divided or moved; what multiplies them goes to the factors."""
    match here.node:
        case ast.BinOp(left=left, op=ast.Div()):
            return left
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            scores, factor = (right, left) if _is_number_like(left) else (left, right)
            factors.append(here._replace(node=factor))
            return scores
    inner = before_methods(here.node, _SAME)
    return inner if inner is not here.node else None


def _is_number_like(node: ast.expr) -> bool:
    """A number, or a name that is one's: which of two factors the scores are is else read off their order."""
    return isinstance(node, ast.Constant) or is_temperature(node)


def is_temperature(node: ast.expr) -> bool:
    return _TEMPERATURE.search(last_name(node).lower()) is not None
