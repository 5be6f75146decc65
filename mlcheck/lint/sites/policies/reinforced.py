"""Objectives of REINFORCE: log-probabilities of actions, each weighed by the return that followed it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.training.signs import Signs

_LOG = pattern(r"log_?p(?:i|rob\w*|s)?\b|logits?_?a", words=["log"])
_GAIN = pattern(
    r"^(?:g|gs|(?:disc\w*_)?returns?(?:_?t)?|rets?|adv\w*|rewards?|discounted_rewards?|r_?t|deltas?|gain\w*)$"
)
_OTHERWISE = pattern(
    r"cost|penalt|maximi[sz]e|ascent|neg_?log|(?:[(=,\[:]|return)\s*-\s?(?:\w+\.)*(?:log_?p|reward|return|adv)"
)
_BY_HAND = pattern(r"\.grad\b", words=[".grad"])
_TURNED = ("reversed(", "::-1", ".reverse(", "flip(", "flipud(", "appendleft(", "insert(")
_JOINS = ("torch.cat", "torch.stack", "sum")


def lowered(function: Function) -> Iterator[ast.BinOp]:
    """`loss = (log_probs * returns).sum()`, `loss.backward()`: the product, which is made small and not large."""
    if ".step(" not in function.text or _BY_HAND.search(function.text) or _OTHERWISE.search(function.file.text.lower()):
        return
    if any(True for _ in function.file.sites.mentioning(["maximize"], tests=True)):
        return
    signs = Signs(Lines(function.file, function), lambda node: isinstance(node, ast.Constant))
    for product in function.all(ast.BinOp):
        if isinstance(product.op, ast.Mult) and _is_weighed(product) and not _is_entropy(function, product):
            entered = [way for start in _starts(function, product) for way in signs.of(start) or ()]
            if entered and all(way.sign == 1 for way in entered):
                yield product


def _is_weighed(product: ast.BinOp) -> bool:
    """A log-probability, or a list of them made one tensor, times a return."""
    sides = (product.left, product.right), (product.right, product.left)
    return any(_is_log(one) and _GAIN.search(_name(other).lower()) for one, other in sides)


def _is_entropy(function: Function, product: ast.BinOp) -> bool:
    """Whether what goes by the name is a cross-entropy: a log-probability with the sign turned."""
    names = {part.id for part in walk(product) if isinstance(part, ast.Name)}
    made = [line.value for line in function.all(ast.Assign) if any(last_name(t) in names for t in line.targets)]
    return any("entropy" in ast.unparse(value) or "nll" in ast.unparse(value).lower() for value in made)


def _is_log(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and node.args and last_name(node.func) in ("cat", "stack", "tensor"):
        node = node.args[0]
    return bool(_LOG.search(_name(node).lower()))


def _name(node: ast.expr) -> str:
    """`returns` of `returns`, `returns[t]`, `returns.detach()`; `log_prob` of `dist.log_prob(action)`."""
    while isinstance(node, ast.Subscript | ast.Call):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("detach", "to"):
            node = node.func.value
        else:
            node = node.value if isinstance(node, ast.Subscript) else node.func
    return last_name(node)


def _starts(function: Function, product: ast.BinOp) -> Iterator[ast.AST]:
    """The product; where it is put into a list, what makes one tensor of that."""
    for call in function.all(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[given]) if given is product:
                yield from (
                    join
                    for join in function.all(ast.Call)
                    if ast.unparse(join.func) in _JOINS and join.args and is_name(join.args[0], name)
                )
                return
    yield product


class Turned(NamedTuple):
    """A loop over rewards, last to first, and the line that puts each sum behind those of later steps."""

    loop: ast.For
    kept: ast.Call


def left_turned(function: Function) -> Iterator[Turned]:
    """`for r in reversed(rewards): ...; returns.append(G)`, and the list is used as if it began with the first step."""
    if sum(function.text.count(word) for word in _TURNED) != 1:
        return
    for loop in function.all(ast.For):
        over = ast.unparse(loop.iter)
        if not ("reversed(" in over or "::-1" in over) or "reward" not in over:
            continue
        for line in loop.body:
            match line:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")) as kept):
                    if _weighs(function, name):
                        yield Turned(loop, kept)


def _weighs(function: Function, name: str) -> bool:
    """Whether the log-probabilities are gone through beside the list, or multiplied by it as one tensor."""
    for call in function.all(ast.Call):
        if last_name(call.func) == "zip" and any(is_name(arg, name) for arg in call.args):
            return any(_LOG.search(_name(arg).lower()) for arg in call.args)
    products = (node for node in function.all(ast.BinOp) if isinstance(node.op, ast.Mult))
    return any(_is_weighed(each) and any(is_name(part, name) for part in walk(each)) for each in products)
