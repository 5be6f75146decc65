"""Terms of a loss that are computed of decisions, `(scores > 0.5).float()`, which have no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, own_nodes
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_DECIDES = frozenset(["argmax", "round", "ge", "gt", "lt", "le", "sign", "floor", "ceil", "heaviside"])
_SAYS_DECISION = pattern(r"[<>]=? ?(?:0?\.\d|self\.\w*thr|thr)|argmax\(|\.round\(|torch\.round\(|\.g[te]\(")
_LOSS = pattern(r"loss|criterion|dice|bce|focal")
_TARGET = pattern(
    r"^(?:y|gt|t)$|target|label|true|truth|mask|ground|^gt_|_gt$|^y_(?!pred|hat)|weight|smooth|eps|alpha|gamma"
)
_DEPTH = 60


class HardTerm(NamedTuple):
    """The term as it is written, the decision that it is computed of, and the sum that it is added to."""

    term: str
    decision: Place
    sum: Place


def hard_terms(sites: Sites) -> Iterator[HardTerm]:
    """`return bce + dice(preds > 0.5, mask)`, and the same sum where it is the `loss` of a `backward`."""
    for file in sites.mentioning(["loss", "Loss"]) if sites.uses_torch else ():
        for function in file.functions if _SAYS_DECISION.search(file.text) else ():
            if not _SAYS_DECISION.search(function.text):
                continue
            for value, context in _sums(function):
                terms = list(_added(value))
                graphs = [_Graph(function).of(term, context) for term in terms]
                for term, (kind, decision) in zip(terms, graphs, strict=True):
                    if kind == "hard" and decision is not None and any(other == "live" for other, _ in graphs):
                        yield HardTerm(ast.unparse(term), function.place(decision), function.place(value))


def _sums(function: Function) -> Iterator[tuple[ast.expr, Context]]:
    """What a loss returns, and what is differentiated right where it is added up."""
    named = function.name + (function.cls.name if function.cls is not None else "")
    if _LOSS.search(named.lower()):
        for value in returns(function):
            if isinstance(value, ast.BinOp):
                yield value, function.inner
            elif isinstance(value, ast.Name) and (made := latest(function.file, value, function.inner)) is not None:
                if isinstance(made.value, ast.BinOp):
                    yield made.value, made.context
    if ".backward(" not in function.text:
        return
    for node in own_nodes(function.node):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() as value) if "loss" in name:
                if f"{name}.backward(" in function.text or f"scale({name}).backward(" in function.text:
                    bound = [b for b in function.inner.scope.bindings.get(name, []) if b.value is value]
                    yield from ((value, each.context) for each in bound)


def _added(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _added(node.left)
        yield from _added(node.right)
    else:
        yield node


class _Graph:
    """What gradient a value of a function has: `live`, `hard` (a decision took it), `none`, or `unknown`."""

    def __init__(self, function: Function) -> None:
        self._function, self._depth = function, 0

    def of(self, node: ast.expr, context: Context) -> tuple[str, ast.expr | None]:
        self._depth += 1
        found = self._asked(node, context) if self._depth < _DEPTH else ("unknown", None)
        self._depth -= 1
        return found

    def _asked(self, node: ast.expr, context: Context) -> tuple[str, ast.expr | None]:
        match node:
            case ast.Constant():
                return "none", None
            case ast.Name():
                return self._named(node, context)
            case ast.Attribute(value=ast.Name(id=owner)) if owner == self._function.receiver:
                return "none", None
            case ast.Attribute(attr="shape" | "device" | "dtype"):
                return "none", None
            case ast.Attribute() if isinstance(self._function.file.resolve(node, context), str):
                return "none", None
            case ast.Call(func=ast.Attribute(attr="size" | "numel")) | ast.Call(func=ast.Name(id="len")):
                return "none", None
            case ast.Compare(left=left, comparators=[right]):
                return self._decided(node, [left, right], context)
            case ast.BinOp(left=left, right=right):
                return self._of_all([left, right], context)
            case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
                return self.of(inner, context)
            case ast.Call():
                return self._called(node, context)
        return "unknown", None

    def _named(self, node: ast.Name, context: Context) -> tuple[str, ast.expr | None]:
        found = latest(self._function.file, node, context)
        if found is None:
            return "unknown", None
        if found.kind == "param":
            return ("none" if _TARGET.search(node.id.lower()) else "live"), None
        if found.kind == "value" and isinstance(found.value, ast.expr):
            return self.of(found.value, found.context)
        return "unknown", None

    def _called(self, node: ast.Call, context: Context) -> tuple[str, ast.expr | None]:
        last, func = last_name(node.func), node.func
        given = [*node.args, *(word.value for word in node.keywords)]
        owner = func.value if isinstance(func, ast.Attribute) else None
        if isinstance(owner, ast.Attribute | ast.Name) and self._function.file.resolve(func, context) is not None:
            owner = None  # a function of a module: `torch.round(x)`
        elif isinstance(owner, ast.Name) and owner.id == self._function.receiver:
            if not _LOSS.search(last.lower()):
                return "unknown", None
            owner = None
        parts = given if owner is None else [owner, *given]
        if last in ("detach", "item", "numpy", "tolist", "no_grad"):
            return "unknown", None
        return self._decided(node, parts, context) if last in _DECIDES else self._of_all(parts, context)

    def _decided(self, node: ast.expr, parts: list[ast.expr], context: Context) -> tuple[str, ast.expr | None]:
        kind, inner = self._of_all(parts, context)
        return ("hard", node) if kind == "live" else (kind, inner)

    def _of_all(self, parts: list[ast.expr], context: Context) -> tuple[str, ast.expr | None]:
        found = [self.of(part, context) for part in parts]
        for kind in ("unknown", "live", "hard"):
            for each in found:
                if each[0] == kind:
                    return each
        return "none", None
