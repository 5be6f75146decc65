"""With which sign something enters the losses that are differentiated."""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.layers.signs_in_sums import parents
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.training.constant_labels import constant_label

WHOLE = frozenset(["mean", "sum", "squeeze", "view", "unsqueeze", "reshape"])
_GROWING: tuple[str, ...] = ("torch.mean", "torch.sum", "torch.relu", "torch.log", "torch.exp", "torch.sigmoid")
_GROWING += ("torch.nn.functional.relu", "torch.nn.functional.softplus", "torch.nn.functional.logsigmoid")
_BINARY: tuple[str, ...] = (
    "torch.nn.BCELoss",
    "torch.nn.BCEWithLogitsLoss",
    "torch.nn.MSELoss",
    "torch.nn.functional.mse_loss",
)
_BINARY += ("torch.nn.functional.binary_cross_entropy", "torch.nn.functional.binary_cross_entropy_with_logits")
_SIDES = {"one": 1, "zero": -1}
_MANY = 4


class Entered(NamedTuple):
    """The sign, and the call of `backward`."""

    sign: int
    backward: ast.Attribute


class Signs:
    """The ways from an expression to the calls of `backward`, through sums and positive factors; None: not known."""

    def __init__(self, lines: Lines, is_positive: Callable[[ast.expr], bool]) -> None:
        self.lines, self.is_positive = lines, is_positive
        self.above = parents(lines.nodes)

    def of(self, node: ast.AST, sign: int = 1, followed: frozenset[ast.stmt] = frozenset()) -> list[Entered] | None:
        while (outer := self.above.get(id(node))) is not None:
            match outer:
                case ast.UnaryOp(op=ast.USub()):
                    sign = -sign
                case ast.Attribute(attr="backward"):
                    return [Entered(sign, outer)]
                case ast.Attribute(attr=attr) if attr in WHOLE:
                    outer = self.above.get(id(outer))
                case ast.Call(args=[first, *_]) if first is node and self._grows(outer):
                    pass
                case ast.Call(args=[first, target, *_]) if first is node and (turned := self._by_label(outer, target)):
                    sign *= turned
                case ast.BinOp(op=ast.Sub(), right=right) if right is node:
                    sign = -sign
                case ast.BinOp(op=ast.Add() | ast.Sub()):
                    pass
                case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
                    other = right if left is node else left
                    if isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub):
                        sign, other = -sign, other.operand
                    if not self.is_positive(other):
                        return None
                case ast.Assign(targets=[ast.Name(id=name)]) if outer not in followed:
                    return self._of_reads(name, outer, sign, followed | {outer})
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub()) if outer not in followed:
                    sign = -sign if isinstance(outer.op, ast.Sub) else sign
                    return self._of_reads(name, outer, sign, followed | {outer})
                case _:
                    return None
            if outer is None:
                return None
            node = outer
        return None

    def _grows(self, call: ast.Call) -> bool:
        """Whether it grows with its argument."""
        return self.lines.file.called(call, self.lines.context) in _GROWING

    def _by_label(self, call: ast.Call, target: ast.expr) -> int:
        """-1 for a loss that falls as its scores rise, as the label is 1; 1 where it is 0; 0 where it is not known."""
        file, context = self.lines.file, self.lines.context
        made, where = file.value(call.func, context)
        named = file.called(call, context) or (file.called(made, where) if isinstance(made, ast.Call) else "")
        return -_SIDES.get(constant_label(file, target, context) if named in _BINARY else "", 0)

    def _of_reads(self, name: str, line: ast.stmt, sign: int, followed: frozenset[ast.stmt]) -> list[Entered] | None:
        """From where the variable is read below, up to the line that is sure to give it another value."""
        names = [node for node in self.lines.all(ast.Name) if is_name(node, name)]
        stores = sorted((n for n in names if isinstance(n.ctx, ast.Store)), key=lambda store: store.lineno)
        if len(stores) > _MANY:
            return None
        end = line.end_lineno or line.lineno
        after = next((store.lineno for store in stores if store.lineno > end and self._replaces(store, line)), 1 << 30)
        reads = [n for n in names if isinstance(n.ctx, ast.Load) and end < n.lineno <= after]
        ways = [way for read in reads if (way := self.of(read, sign, followed)) is not None]
        return [entered for way in ways for entered in way] or None

    def _replaces(self, store: ast.Name, line: ast.stmt) -> bool:
        """Whether who comes from the line passes the store, and what the variable held does not go on in it."""
        given = self.above.get(id(store))
        around = self.above.get(id(given))
        outer: ast.AST | None = line
        while outer is not None and outer is not around:
            outer = self.above.get(id(outer))
        return outer is around and not isinstance(given, ast.AugAssign)
