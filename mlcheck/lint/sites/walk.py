"""What one walk over a file records: its calls, its names by scope, its classes, functions and attributes."""

from __future__ import annotations

import ast

from mlcheck.lint.files.slim import by_kind
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.scopes import AttributeSet, Binding, Context, Defined, Scope

CLASSES = [cls for cls in vars(ast).values() if isinstance(cls, type) and issubclass(cls, ast.AST)]
_EMPTY = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.Name, ast.Constant, ast.Pass)
LEAVES = frozenset([type(None), *by_kind({cls: None for cls in CLASSES if issubclass(cls, _EMPTY)})])
_ENDS = frozenset(by_kind(dict.fromkeys((ast.Return, ast.Raise, ast.Continue, ast.Break))))


class Walk:
    """What one walk over a tree recorded. `calls` go by the last part of the callee's name, in textual order.

    `statements` are the expressions that are statements by themselves, `bare` the attributes among them; `tests` are
    the conditions of branches, loops and comprehensions; `returned` are the names that functions give back.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module = Context("module", tree, None, Scope("module", None))
        self.calls: dict[str, list[tuple[ast.Call, Context]]] = {}
        self.attributes: list[AttributeSet] = []
        self.defined: list[Defined] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.stars: list[ast.ImportFrom] = []
        self.aliases: dict[str, set[str]] = {}
        self.mutations: dict[str, list[tuple[ast.AST, Context]]] = {}
        self.mutated_attributes: set[str] = set()
        self.subscripts: list[tuple[ast.Subscript, Context]] = []
        self.comparisons: list[tuple[ast.Compare, Context]] = []
        self.bare: list[tuple[ast.Attribute, Context]] = []
        self.statements: list[ast.expr] = []
        self.loops: list[tuple[ast.For | ast.While, Context]] = []
        self.tests: list[tuple[ast.expr, Context]] = []
        self.returned: list[tuple[ast.expr, Context]] = []
        self.asserted: list[tuple[ast.expr, Context]] = []
        self.stack: list[tuple[ast.AST, Context]] = []

    def push(self, nodes: list[ast.stmt] | list[ast.expr], context: Context) -> None:
        leaves = LEAVES
        self.stack.extend([(node, context) for node in reversed(nodes) if node.__class__ not in leaves])

    def block(self, nodes: list[ast.stmt], context: Context) -> None:
        """The statements of a block as far as they are ever reached: what follows on `return` or `raise` is dead."""
        ends = _ENDS
        for number, node in enumerate(nodes, 1):
            if node.__class__ in ends:
                nodes = nodes[:number]
                break
        self.push(nodes, context)

    def push_one(self, node: ast.AST | None, context: Context) -> None:
        if node is not None and node.__class__ not in LEAVES:
            self.stack.append((node, context))

    def bind(
        self, name: str, kind: str, value: ast.AST | None, context: Context, node: ast.AST, index: int = 0
    ) -> None:
        scope = context.scope
        if name in scope.globals:
            scope = self.module.scope
        scope.bindings.setdefault(name, []).append(Binding(kind, value, context, node, index))

    def target(self, target: ast.expr, kind: str, value: ast.expr | None, context: Context, node: ast.stmt) -> None:
        """One target of an assignment, a loop or a `with`."""
        if isinstance(target, ast.Name):
            self.bind(target.id, kind, value, context, node)
            if kind == "value" and isinstance(value, ast.Name | ast.Attribute):
                self.aliases.setdefault(last_name(value), set()).add(target.id)
            elif kind == "value" and (isinstance(value, ast.Subscript) or _asks_by_name(value)):
                self.aliases.setdefault("", set()).add(target.id)
        elif isinstance(target, ast.Attribute):
            self.attributes.append(AttributeSet(target, value if kind == "value" else None, context, node))
            self.push_one(target.value, context)
        elif isinstance(target, ast.Subscript):
            self.mutated(target.value, target, context)
            self.subscripts.append((target, context))
            self.push_one(target.slice, context)
            self.push_one(target.value, context)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, kind, value, context, node)
        elif isinstance(target, ast.Starred):
            self.target(target.value, "other", None, context, node)

    def _unpack(
        self, target: ast.Tuple | ast.List, kind: str, value: ast.expr | None, context: Context, node: ast.stmt
    ) -> None:
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        written = value.elts if isinstance(value, ast.Tuple | ast.List) and kind == "value" else None
        paired = min(map(_unstarred, (target.elts, written))) if written is not None else 0
        for index, item in enumerate(target.elts):
            if written is not None and index < paired:
                self.target(item, "value", written[index], context, node)
            elif isinstance(item, ast.Name) and kind == "value" and written is None and not starred:
                self.bind(item.id, "item", value, context, node, index)
            elif isinstance(item, ast.Attribute) and kind == "value" and written is None and not starred:
                self.attributes.append(AttributeSet(item, None, context, node, value, index))
                self.push_one(item.value, context)
            else:
                self.target(item, "other", None, context, node)

    def mutated(self, owner: ast.expr, node: ast.AST, context: Context) -> None:
        if isinstance(owner, ast.Name):
            self.mutations.setdefault(owner.id, []).append((node, context))
        elif isinstance(owner, ast.Attribute):
            self.mutated_attributes.add(owner.attr)


def _unstarred(items: list[ast.expr]) -> int:
    """How many of them stand before the first `*rest`."""
    return next((index for index, item in enumerate(items) if isinstance(item, ast.Starred)), len(items))


def _asks_by_name(value: ast.expr | None) -> bool:
    """`getattr(nn, name)`."""
    return isinstance(value, ast.Call) and last_name(value.func) == "getattr"
