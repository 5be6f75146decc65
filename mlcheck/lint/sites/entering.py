"""A function as one call enters it: which of its branches run, by the constants that it is given."""

from __future__ import annotations

import ast
from typing import NamedTuple

from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call, Function
from mlcheck.lint.sites.scopes import Context


class Entered(NamedTuple):
    """The function, and the call of it that is meant; `outer` is how the function around that call was entered."""

    function: Function
    call: Call
    outer: Entered | None = None

    def given(self, name: str) -> tuple[ast.expr, bool] | None:
        """What a parameter that is never assigned anew holds, and whether it is the default; None: cannot be told."""
        return self.passed(name) if len(self.function.file.bindings(name, self.function.inner)) == 1 else None

    def passed(self, name: str) -> tuple[ast.expr, bool] | None:
        """What the call gives for a parameter, and whether it is the default; None where that cannot be told."""
        names = list(self.function.parameters)
        if name not in names:
            return None
        position = names.index(name) - (1 if self.function.receiver else 0)
        value = self.call.argument(name, position)
        if value is OPEN or any(keyword.arg is None for keyword in self.call.node.keywords):
            return None
        default = self.function.parameters[name]
        return (value, False) if value is not None else (default, True) if default is not None else None

    def constant(self, node: ast.expr) -> object:
        """The constant that an expression inside comes to, or UNKNOWN."""
        if isinstance(node, ast.Name) and node.id in self.function.parameters:
            held = self.given(node.id)
            if held is None:
                return UNKNOWN
            value, is_default = held
            if is_default:
                return self.function.file.constant(value, self.function.defined.context)
            above = self.outer.constant(value) if self.outer is not None else UNKNOWN
            known = not isinstance(above, type(UNKNOWN))
            return above if known else self.call.file.constant(value, self.call.context)
        node = self._flag(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            answer = self.answer(node)
            return UNKNOWN if answer is None else answer
        return node.value if isinstance(node, ast.Constant) else UNKNOWN

    def _flag(self, node: ast.expr) -> ast.expr:
        """What a variable of the function is assigned, once: `training = optimizer is not None`."""
        bound = self.function.inner.scope.bindings.get(node.id, []) if isinstance(node, ast.Name) else []
        value = bound[0].value if len(bound) == 1 and bound[0].kind == "value" else None
        return value if isinstance(value, ast.Compare) else node

    def answer(self, test: ast.expr) -> bool | None:
        """How a test comes out; None where it cannot be told."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.answer(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            if isinstance(test.ops[0], ast.In | ast.NotIn):
                held = self._is_among(test.left, test.comparators[0])
                return held if held is None or isinstance(test.ops[0], ast.In) else not held
            left, right = self.constant(test.left), self.constant(test.comparators[0])
            if isinstance(left, type(UNKNOWN)) or isinstance(right, type(UNKNOWN)):
                return None
            same = left == right
            return same if isinstance(test.ops[0], ast.Eq | ast.Is) else not same if _is_unequal(test.ops[0]) else None
        value = self.constant(test)
        return None if isinstance(value, type(UNKNOWN)) else bool(value)

    def _is_among(self, one: ast.expr, several: ast.expr) -> bool | None:
        """`split in ("train", "val")`."""
        if not isinstance(several, ast.Tuple | ast.List | ast.Set):
            return None
        value, others = self.constant(one), [self.constant(each) for each in several.elts]
        known = not any(isinstance(each, type(UNKNOWN)) for each in (value, *others))
        return value in others if known else None

    def leaves_out(self, node: ast.AST, context: Context) -> bool:
        """Whether the place is in a branch that does not run, or behind one that has returned."""
        for outer in context.outwards():
            if outer.node is self.function.node:
                break
            if isinstance(outer.node, ast.If) and self.answer(outer.node.test) is (outer.arm != "body"):
                return True
        return any(
            isinstance(line, ast.If)
            and getattr(node, "lineno", 0) > (line.end_lineno or 0)
            and self.answer(line.test) is True
            and isinstance(line.body[-1], ast.Return | ast.Raise)
            for line in self.function.node.body
        )

    @property
    def way(self) -> tuple[int, ...]:
        """The calls that lead here, from the last to the first."""
        return (id(self.call.node), *(self.outer.way if self.outer is not None else ()))

    def runs(self, context: Context) -> bool:
        """Whether every branch around the place is certain to run."""
        for outer in context.outwards():
            if outer.node is self.function.node:
                return True
            if isinstance(outer.node, ast.If) and self.answer(outer.node.test) is not (outer.arm == "body"):
                return False
        return False


def _is_unequal(op: ast.cmpop) -> bool:
    return isinstance(op, ast.NotEq | ast.IsNot)
