"""What the walk over a file does with scopes: functions, classes, comprehensions, imports, `global`."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.scopes import Binding, Context, Defined, Scope
from mlcheck.lint.sites.walk import Walk


def function(record: Walk, node: ast.FunctionDef | ast.AsyncFunctionDef, context: Context) -> None:
    record.bind(node.name, "def", node, context, node)
    inner = Context("function", node, context, Scope("function", context.scope))
    record.defined.append(Defined(node, context, inner))
    record.block(node.body, inner)
    _parameters(record, node.args, context, inner)
    record.push(node.decorator_list, context)


def lambda_expression(record: Walk, node: ast.Lambda, context: Context) -> None:
    inner = Context("lambda", node, context, Scope("function", context.scope))
    record.push_one(node.body, inner)
    _parameters(record, node.args, context, inner)


def _parameters(record: Walk, args: ast.arguments, context: Context, inner: Context) -> None:
    record.push([default for default in args.kw_defaults if default is not None], context)
    record.push(args.defaults, context)
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            record.bind(arg.arg, "param", None, inner, arg)


def class_definition(record: Walk, node: ast.ClassDef, context: Context) -> None:
    record.bind(node.name, "class", node, context, node)
    inner = Context("class", node, context, Scope("class", context.scope))
    record.defined.append(Defined(node, context, inner))
    record.block(node.body, inner)
    record.stack.extend([(keyword.value, context) for keyword in reversed(node.keywords)])
    record.push(node.bases, context)
    record.push(node.decorator_list, context)


def comprehension(
    record: Walk, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, context: Context
) -> None:
    inside = Context("comprehension", node, context, Scope("function", context.scope))
    if isinstance(node, ast.DictComp):
        record.push([node.key, node.value], inside)
    else:
        record.push_one(node.elt, inside)
    for number, generator in enumerate(reversed(node.generators), 1):
        record.tests += [(test, inside) for test in generator.ifs]
        record.push(generator.ifs, inside)
        record.push_one(generator.iter, context if number == len(node.generators) else inside)
        for name in walk(generator.target):
            if isinstance(name, ast.Name):
                single = name is generator.target
                record.bind(name.id, "loop" if single else "other", generator.iter if single else None, inside, node)


def import_statement(record: Walk, node: ast.Import, context: Context) -> None:
    record.imports.append(node)
    for alias in node.names:
        record.bind(alias.asname or alias.name.partition(".")[0], "import", alias, context, node)


def from_import(record: Walk, node: ast.ImportFrom, context: Context) -> None:
    record.imports.append(node)
    for alias in node.names:
        if alias.name == "*":
            record.stars.append(node)
            continue
        if alias.asname:
            record.aliases.setdefault(alias.name, set()).add(alias.asname)
        record.bind(alias.asname or alias.name, "from", alias, context, node)


def global_statement(record: Walk, node: ast.Global, context: Context) -> None:
    context.scope.globals.update(node.names)


def nonlocal_statement(record: Walk, node: ast.Nonlocal, context: Context) -> None:
    outer = context.scope.outer
    while outer is not None:
        for name in node.names:
            if outer.kind == "function" and name in outer.bindings:
                outer.bindings[name].append(Binding("other", None, context, node))
        outer = outer.outer
    for name in node.names:
        record.bind(name, "other", None, context, node)
