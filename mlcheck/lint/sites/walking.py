"""The walk over a file, with an explicit stack: names and constants are never entered.

One small function for each kind of node that says more than its parts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.lint.files.slim import by_kind
from mlcheck.lint.sites import walking_scopes
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.walk import CLASSES, LEAVES, Walk

_MUTATORS = frozenset(
    ["update", "append", "extend", "insert", "setdefault", "pop", "clear", "remove", "add", "popitem", "sort"]
)
_ATTRIBUTES = frozenset(by_kind({ast.Attribute: None}))
_EXPRESSIONS = frozenset(by_kind({ast.Expr: None}))
_DULL = frozenset(["ctx", "kind", "type_comment", "op", "ops", "simple", "conversion", "level", "id", "attr"])
_DULL |= {"kwd_attrs", "rest"}
_FIELDS: dict[type, tuple[str, ...]] = by_kind(
    {cls: tuple(name for name in reversed(cls._fields) if name not in _DULL) for cls in CLASSES}
)


def walked(tree: ast.Module) -> Walk:
    """Walk over a file once, and record what rules ask for."""
    record = Walk(tree)
    stack, handlers, fields, leaves = record.stack, _HANDLERS, _FIELDS, LEAVES
    attributes, expressions = _ATTRIBUTES, _EXPRESSIONS
    record.push(tree.body, record.module)
    while stack:
        node, context = stack.pop()
        cls = node.__class__
        if cls in attributes or cls in expressions:
            inner: ast.expr = node.value  # type: ignore[attr-defined]
            if cls in expressions:
                record.statements.append(inner)
                if isinstance(inner, ast.Attribute):
                    record.bare.append((inner, context))
            if inner.__class__ not in leaves:
                stack.append((inner, context))
            continue
        handler = handlers.get(cls)
        if handler is not None:
            handler(record, node, context)
            continue
        for name in fields[cls]:
            value = getattr(node, name, None)
            if value.__class__ is list:
                stack.extend([(item, context) for item in reversed(value) if item.__class__ not in leaves])
            elif value.__class__ not in leaves and value.__class__ in fields:
                stack.append((value, context))  # type: ignore[arg-type]
    return record


def _assign(record: Walk, node: ast.Assign, context: Context) -> None:
    value = node.value
    if value.__class__ not in LEAVES:
        record.stack.append((value, context))
    for target in node.targets:
        record.target(target, "value", value, context, node)


def _ann_assign(record: Walk, node: ast.AnnAssign, context: Context) -> None:
    record.push_one(node.value, context)
    if node.value is not None:
        record.target(node.target, "value", node.value, context, node)


def _aug_assign(record: Walk, node: ast.AugAssign, context: Context) -> None:
    record.push_one(node.value, context)
    record.target(node.target, "other", None, context, node)


def _named(record: Walk, node: ast.NamedExpr, context: Context) -> None:
    record.push_one(node.value, context)
    record.bind(node.target.id, "value", node.value, context, node)


def _call(record: Walk, node: ast.Call, context: Context) -> None:
    func = node.func
    if isinstance(func, ast.Attribute):
        record.calls.setdefault(func.attr, []).append((node, context))
        if func.attr in _MUTATORS:
            record.mutated(func.value, node, context)
        inner: ast.expr = func.value
    else:
        if isinstance(func, ast.Name):
            record.calls.setdefault(func.id, []).append((node, context))
        elif isinstance(func, ast.Subscript | ast.Call):
            record.calls.setdefault("", []).append((node, context))
        inner = func
    stack, leaves = record.stack, LEAVES
    for keyword in reversed(node.keywords):
        if keyword.value.__class__ not in leaves:
            stack.append((keyword.value, context))
    for argument in reversed(node.args):
        if argument.__class__ not in leaves:
            stack.append((argument, context))
    if inner.__class__ not in leaves:
        stack.append((inner, context))


def _compare(record: Walk, node: ast.Compare, context: Context) -> None:
    record.comparisons.append((node, context))
    record.push(node.comparators, context)
    record.push_one(node.left, context)


def _loop(record: Walk, node: ast.For | ast.AsyncFor | ast.While, context: Context) -> None:
    inside = Context("loop", node, context, context.scope)
    if not isinstance(node, ast.AsyncFor):
        record.loops.append((node, inside))
    record.block(node.orelse, context)
    record.block(node.body, inside)
    if isinstance(node, ast.While):
        record.tests.append((node.test, context))
        record.push_one(node.test, inside)
    else:
        record.target(node.target, "loop", node.iter, context, node)
        record.push_one(node.iter, context)


def _branch(record: Walk, node: ast.If, context: Context) -> None:
    if node.orelse:
        record.block(node.orelse, Context("if", node, context, context.scope, "orelse"))
    if not _never_runs(node):
        record.block(node.body, Context("if", node, context, context.scope))
    record.tests.append((node.test, context))
    record.push_one(node.test, context)


def _never_runs(node: ast.If) -> bool:
    """`if False:`; with imports in it, it tells editors and type checkers what a name is."""
    if not isinstance(node.test, ast.Constant) or node.test.value:
        return False
    return not any(isinstance(line, ast.Import | ast.ImportFrom) for line in node.body)


def _choice(record: Walk, node: ast.IfExp, context: Context) -> None:
    record.push_one(node.orelse, Context("if", node, context, context.scope, "orelse"))
    record.push_one(node.body, Context("if", node, context, context.scope))
    record.tests.append((node.test, context))
    record.push_one(node.test, context)


def _with(record: Walk, node: ast.With | ast.AsyncWith, context: Context) -> None:
    record.block(node.body, Context("with", node, context, context.scope))
    for item in reversed(node.items):
        record.push_one(item.context_expr, context)
        if item.optional_vars is not None:
            record.target(item.optional_vars, "with", item.context_expr, context, node)


def _try(record: Walk, node: ast.Try, context: Context) -> None:
    record.block(node.finalbody, Context("try", node, context, context.scope, "finally"))
    record.block(node.orelse, context)
    for handler in reversed(node.handlers):
        inside = Context("try", node, context, context.scope, "handler")
        if handler.name:
            record.bind(handler.name, "other", None, context, handler)
        record.block(handler.body, inside)
        record.push_one(handler.type, context)
    record.block(node.body, Context("try", node, context, context.scope))


def _match_case(record: Walk, node: ast.match_case, context: Context) -> None:
    inside = Context("if", node, context, context.scope)
    record.block(node.body, inside)
    record.push_one(node.guard, context)
    record.push_one(node.pattern, context)


def _pattern(record: Walk, node: ast.MatchAs | ast.MatchStar, context: Context) -> None:
    if node.name:
        record.bind(node.name, "other", None, context, node)
    record.push_one(getattr(node, "pattern", None), context)


def _assertion(record: Walk, node: ast.Assert, context: Context) -> None:
    record.asserted.append((node.test, context))
    record.push_one(node.msg, context)
    record.push_one(node.test, context)


def _return(record: Walk, node: ast.Return, context: Context) -> None:
    if isinstance(node.value, ast.Name | ast.Attribute):
        record.returned.append((node.value, context))
    record.push_one(node.value, context)


_HANDLERS: dict[type, Callable[..., None]] = by_kind(
    {
        ast.Assign: _assign,
        ast.AnnAssign: _ann_assign,
        ast.Assert: _assertion,
        ast.AugAssign: _aug_assign,
        ast.NamedExpr: _named,
        ast.Call: _call,
        ast.Compare: _compare,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.While: _loop,
        ast.If: _branch,
        ast.Return: _return,
        ast.IfExp: _choice,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.match_case: _match_case,
        ast.MatchAs: _pattern,
        ast.MatchStar: _pattern,
        ast.FunctionDef: walking_scopes.function,
        ast.AsyncFunctionDef: walking_scopes.function,
        ast.Lambda: walking_scopes.lambda_expression,
        ast.ClassDef: walking_scopes.class_definition,
        ast.ListComp: walking_scopes.comprehension,
        ast.SetComp: walking_scopes.comprehension,
        ast.GeneratorExp: walking_scopes.comprehension,
        ast.DictComp: walking_scopes.comprehension,
        ast.Import: walking_scopes.import_statement,
        ast.ImportFrom: walking_scopes.from_import,
        ast.Global: walking_scopes.global_statement,
        ast.Nonlocal: walking_scopes.nonlocal_statement,
    }
)
