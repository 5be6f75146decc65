"""One walk over a file: its calls, its names by scope, its classes, functions and attribute assignments.

An explicit stack, one small record a compound statement; names and constants are never entered.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.lint.files.slim import by_kind
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.scopes import AttributeSet, Binding, Context, Defined, Scope

_MUTATORS = frozenset(
    ["update", "append", "extend", "insert", "setdefault", "pop", "clear", "remove", "add", "popitem", "sort"]
)
_CLASSES = [cls for cls in vars(ast).values() if isinstance(cls, type) and issubclass(cls, ast.AST)]
_EMPTY = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.Name, ast.Constant, ast.Pass)
_LEAVES = frozenset([type(None), *by_kind({cls: None for cls in _CLASSES if issubclass(cls, _EMPTY)})])
_ATTRIBUTES = frozenset(by_kind({ast.Attribute: None}))
_EXPRESSIONS = frozenset(by_kind({ast.Expr: None}))
_ENDS = frozenset(by_kind(dict.fromkeys((ast.Return, ast.Raise, ast.Continue, ast.Break))))
_DULL = frozenset(["ctx", "kind", "type_comment", "op", "ops", "simple", "conversion", "level", "id", "attr"])
_DULL |= {"kwd_attrs", "rest"}
_FIELDS: dict[type, tuple[str, ...]] = by_kind(
    {cls: tuple(name for name in reversed(cls._fields) if name not in _DULL) for cls in _CLASSES}
)


class Walk:
    """What one walk over a tree recorded. `calls` go by the last part of the callee's name, in textual order.

    `statements` are the expressions that are statements by themselves, `bare` the attributes among them; `tests` are
    the conditions of branches, loops and comprehensions.
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
        self.asserted: list[tuple[ast.expr, Context]] = []
        self._stack: list[tuple[ast.AST, Context]] = []
        self._run(tree)

    def _run(self, tree: ast.Module) -> None:
        stack, handlers, fields, leaves = self._stack, _HANDLERS, _FIELDS, _LEAVES
        attributes, expressions = _ATTRIBUTES, _EXPRESSIONS
        self._push(tree.body, self.module)
        while stack:
            node, context = stack.pop()
            cls = node.__class__
            if cls in attributes or cls in expressions:
                inner: ast.expr = node.value  # type: ignore[attr-defined]
                if cls in expressions:
                    self.statements.append(inner)
                    if isinstance(inner, ast.Attribute):
                        self.bare.append((inner, context))
                if inner.__class__ not in leaves:
                    stack.append((inner, context))
                continue
            handler = handlers.get(cls)
            if handler is not None:
                handler(self, node, context)
                continue
            for name in fields[cls]:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    stack.extend([(item, context) for item in reversed(value) if item.__class__ not in leaves])
                elif value.__class__ not in leaves and value.__class__ in fields:
                    stack.append((value, context))  # type: ignore[arg-type]

    def _push(self, nodes: list[ast.stmt] | list[ast.expr], context: Context) -> None:
        leaves = _LEAVES
        self._stack.extend([(node, context) for node in reversed(nodes) if node.__class__ not in leaves])

    def _block(self, nodes: list[ast.stmt], context: Context) -> None:
        """The statements of a block as far as they are ever reached: what follows on `return` or `raise` is dead."""
        ends = _ENDS
        for number, node in enumerate(nodes, 1):
            if node.__class__ in ends:
                nodes = nodes[:number]
                break
        self._push(nodes, context)

    def _push_one(self, node: ast.AST | None, context: Context) -> None:
        if node is not None and node.__class__ not in _LEAVES:
            self._stack.append((node, context))

    def _bind(
        self, name: str, kind: str, value: ast.AST | None, context: Context, node: ast.AST, index: int = 0
    ) -> None:
        scope = context.scope
        if name in scope.globals:
            scope = self.module.scope
        scope.bindings.setdefault(name, []).append(Binding(kind, value, context, node, index))

    def _target(self, target: ast.expr, kind: str, value: ast.expr | None, context: Context, node: ast.stmt) -> None:
        """One target of an assignment, a loop or a `with`."""
        if isinstance(target, ast.Name):
            self._bind(target.id, kind, value, context, node)
            if kind == "value" and isinstance(value, ast.Name | ast.Attribute):
                self.aliases.setdefault(last_name(value), set()).add(target.id)
            elif kind == "value" and (isinstance(value, ast.Subscript) or _asks_by_name(value)):
                self.aliases.setdefault("", set()).add(target.id)
        elif isinstance(target, ast.Attribute):
            self.attributes.append(AttributeSet(target, value if kind == "value" else None, context, node))
            self._push_one(target.value, context)
        elif isinstance(target, ast.Subscript):
            self._mutated(target.value, target, context)
            self.subscripts.append((target, context))
            self._push_one(target.slice, context)
            self._push_one(target.value, context)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, kind, value, context, node)
        elif isinstance(target, ast.Starred):
            self._target(target.value, "other", None, context, node)

    def _unpack(
        self, target: ast.Tuple | ast.List, kind: str, value: ast.expr | None, context: Context, node: ast.stmt
    ) -> None:
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        paired = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and kind == "value"
        for index, item in enumerate(target.elts):
            if paired and not starred:
                assert isinstance(value, ast.Tuple | ast.List)
                self._target(item, "value", value.elts[index], context, node)
            elif isinstance(item, ast.Name) and kind == "value" and not starred:
                self._bind(item.id, "item", value, context, node, index)
            elif isinstance(item, ast.Attribute) and kind == "value" and not starred:
                self.attributes.append(AttributeSet(item, None, context, node, value, index))
                self._push_one(item.value, context)
            else:
                self._target(item, "other", None, context, node)

    def _mutated(self, owner: ast.expr, node: ast.AST, context: Context) -> None:
        if isinstance(owner, ast.Name):
            self.mutations.setdefault(owner.id, []).append((node, context))
        elif isinstance(owner, ast.Attribute):
            self.mutated_attributes.add(owner.attr)

    def assign(self, node: ast.Assign, context: Context) -> None:
        value = node.value
        if value.__class__ not in _LEAVES:
            self._stack.append((value, context))
        for target in node.targets:
            self._target(target, "value", value, context, node)

    def ann_assign(self, node: ast.AnnAssign, context: Context) -> None:
        self._push_one(node.value, context)
        if node.value is not None:
            self._target(node.target, "value", node.value, context, node)

    def aug_assign(self, node: ast.AugAssign, context: Context) -> None:
        self._push_one(node.value, context)
        self._target(node.target, "other", None, context, node)

    def named(self, node: ast.NamedExpr, context: Context) -> None:
        self._push_one(node.value, context)
        self._bind(node.target.id, "value", node.value, context, node)

    def call(self, node: ast.Call, context: Context) -> None:
        func = node.func
        if isinstance(func, ast.Attribute):
            self.calls.setdefault(func.attr, []).append((node, context))
            if func.attr in _MUTATORS:
                self._mutated(func.value, node, context)
            inner: ast.expr = func.value
        else:
            if isinstance(func, ast.Name):
                self.calls.setdefault(func.id, []).append((node, context))
            elif isinstance(func, ast.Subscript | ast.Call):
                self.calls.setdefault("", []).append((node, context))
            inner = func
        stack, leaves = self._stack, _LEAVES
        for keyword in reversed(node.keywords):
            if keyword.value.__class__ not in leaves:
                stack.append((keyword.value, context))
        for argument in reversed(node.args):
            if argument.__class__ not in leaves:
                stack.append((argument, context))
        if inner.__class__ not in leaves:
            stack.append((inner, context))

    def compare(self, node: ast.Compare, context: Context) -> None:
        self.comparisons.append((node, context))
        self._push(node.comparators, context)
        self._push_one(node.left, context)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, context: Context) -> None:
        inside = Context("loop", node, context, context.scope)
        if not isinstance(node, ast.AsyncFor):
            self.loops.append((node, inside))
        self._block(node.orelse, context)
        self._block(node.body, inside)
        if isinstance(node, ast.While):
            self.tests.append((node.test, context))
            self._push_one(node.test, inside)
        else:
            self._target(node.target, "loop", node.iter, context, node)
            self._push_one(node.iter, context)

    def branch(self, node: ast.If, context: Context) -> None:
        if node.orelse:
            self._block(node.orelse, Context("if", node, context, context.scope, "orelse"))
        self._block(node.body, Context("if", node, context, context.scope))
        self.tests.append((node.test, context))
        self._push_one(node.test, context)

    def choice(self, node: ast.IfExp, context: Context) -> None:
        self._push_one(node.orelse, Context("if", node, context, context.scope, "orelse"))
        self._push_one(node.body, Context("if", node, context, context.scope))
        self.tests.append((node.test, context))
        self._push_one(node.test, context)

    def with_(self, node: ast.With | ast.AsyncWith, context: Context) -> None:
        self._block(node.body, Context("with", node, context, context.scope))
        for item in reversed(node.items):
            self._push_one(item.context_expr, context)
            if item.optional_vars is not None:
                self._target(item.optional_vars, "with", item.context_expr, context, node)

    def try_(self, node: ast.Try, context: Context) -> None:
        self._block(node.finalbody, Context("try", node, context, context.scope, "finally"))
        self._block(node.orelse, context)
        for handler in reversed(node.handlers):
            inside = Context("try", node, context, context.scope, "handler")
            if handler.name:
                self._bind(handler.name, "other", None, context, handler)
            self._block(handler.body, inside)
            self._push_one(handler.type, context)
        self._block(node.body, Context("try", node, context, context.scope))

    def match_case(self, node: ast.match_case, context: Context) -> None:
        inside = Context("if", node, context, context.scope)
        self._block(node.body, inside)
        self._push_one(node.guard, context)
        self._push_one(node.pattern, context)

    def pattern(self, node: ast.MatchAs | ast.MatchStar, context: Context) -> None:
        if node.name:
            self._bind(node.name, "other", None, context, node)
        self._push_one(getattr(node, "pattern", None), context)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, context: Context) -> None:
        self._bind(node.name, "def", node, context, node)
        inner = Context("function", node, context, Scope("function", context.scope))
        self.defined.append(Defined(node, context, inner))
        self._block(node.body, inner)
        self._parameters(node.args, context, inner)
        self._push(node.decorator_list, context)

    def lambda_(self, node: ast.Lambda, context: Context) -> None:
        inner = Context("lambda", node, context, Scope("function", context.scope))
        self._push_one(node.body, inner)
        self._parameters(node.args, context, inner)

    def _parameters(self, args: ast.arguments, context: Context, inner: Context) -> None:
        self._push([default for default in args.kw_defaults if default is not None], context)
        self._push(args.defaults, context)
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if arg is not None:
                self._bind(arg.arg, "param", None, inner, arg)

    def class_(self, node: ast.ClassDef, context: Context) -> None:
        self._bind(node.name, "class", node, context, node)
        inner = Context("class", node, context, Scope("class", context.scope))
        self.defined.append(Defined(node, context, inner))
        self._block(node.body, inner)
        self._stack.extend([(keyword.value, context) for keyword in reversed(node.keywords)])
        self._push(node.bases, context)
        self._push(node.decorator_list, context)

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, context: Context
    ) -> None:
        inside = Context("comprehension", node, context, Scope("function", context.scope))
        if isinstance(node, ast.DictComp):
            self._push([node.key, node.value], inside)
        else:
            self._push_one(node.elt, inside)
        for number, generator in enumerate(reversed(node.generators), 1):
            self.tests += [(test, inside) for test in generator.ifs]
            self._push(generator.ifs, inside)
            self._push_one(generator.iter, context if number == len(node.generators) else inside)
            for name in walk(generator.target):
                if isinstance(name, ast.Name):
                    single = name is generator.target
                    self._bind(name.id, "loop" if single else "other", generator.iter if single else None, inside, node)

    def import_(self, node: ast.Import, context: Context) -> None:
        self.imports.append(node)
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0], "import", alias, context, node)

    def import_from(self, node: ast.ImportFrom, context: Context) -> None:
        self.imports.append(node)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(node)
                continue
            if alias.asname:
                self.aliases.setdefault(alias.name, set()).add(alias.asname)
            self._bind(alias.asname or alias.name, "from", alias, context, node)

    def assertion(self, node: ast.Assert, context: Context) -> None:
        self.asserted.append((node.test, context))
        self._push_one(node.msg, context)
        self._push_one(node.test, context)

    def globals(self, node: ast.Global, context: Context) -> None:
        context.scope.globals.update(node.names)

    def nonlocals(self, node: ast.Nonlocal, context: Context) -> None:
        outer = context.scope.outer
        while outer is not None:
            for name in node.names:
                if outer.kind == "function" and name in outer.bindings:
                    outer.bindings[name].append(Binding("other", None, context, node))
            outer = outer.outer
        for name in node.names:
            self._bind(name, "other", None, context, node)


def _asks_by_name(value: ast.expr | None) -> bool:
    """`getattr(nn, name)`."""
    return isinstance(value, ast.Call) and last_name(value.func) == "getattr"


_HANDLERS: dict[type, Callable[..., None]] = by_kind(
    {
        ast.Assign: Walk.assign,
        ast.AnnAssign: Walk.ann_assign,
        ast.Assert: Walk.assertion,
        ast.AugAssign: Walk.aug_assign,
        ast.NamedExpr: Walk.named,
        ast.Call: Walk.call,
        ast.Compare: Walk.compare,
        ast.For: Walk.loop,
        ast.AsyncFor: Walk.loop,
        ast.While: Walk.loop,
        ast.If: Walk.branch,
        ast.IfExp: Walk.choice,
        ast.With: Walk.with_,
        ast.AsyncWith: Walk.with_,
        ast.Try: Walk.try_,
        ast.TryStar: Walk.try_,
        ast.match_case: Walk.match_case,
        ast.MatchAs: Walk.pattern,
        ast.MatchStar: Walk.pattern,
        ast.FunctionDef: Walk.function,
        ast.AsyncFunctionDef: Walk.function,
        ast.Lambda: Walk.lambda_,
        ast.ClassDef: Walk.class_,
        ast.ListComp: Walk.comprehension,
        ast.SetComp: Walk.comprehension,
        ast.GeneratorExp: Walk.comprehension,
        ast.DictComp: Walk.comprehension,
        ast.Import: Walk.import_,
        ast.ImportFrom: Walk.import_from,
        ast.Global: Walk.globals,
        ast.Nonlocal: Walk.nonlocals,
    }
)
