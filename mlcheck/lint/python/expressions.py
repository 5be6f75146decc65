"""What expressions evaluate to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from typing import Any

from mlcheck.lint import names
from mlcheck.lint.files.slim import by_kind
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.conditions import compare, decide, truth
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.python import arithmetic, assignment, attributes, displays, elements, namespaces, slices
from mlcheck.lint.shapes import indexing as shape_indexing
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.shapes import tables
from mlcheck.lint.values import (
    NONE,
    Class,
    Const,
    External,
    Function,
    Imported,
    Module,
    Select,
    Super,
    Symbol,
    Tensor,
    Tuple,
    Value,
    split_of,
    traces_of,
)


def evaluate(m: Machine, node: ast.expr | None) -> Value:
    """The abstract value of an expression. Unknown forms are evaluated for their effects and give a Symbol."""
    if node is None:
        return NONE
    handler = _HANDLERS.get(type(node))
    if handler is None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                evaluate(m, child)
        return m.symbol()
    return handler(m, node)


def _constant(m: Machine, node: ast.Constant) -> Value:
    return Const(node.value)


def _name(m: Machine, node: ast.Name) -> Value:
    value = m.lookup(node.id)
    if value is None:
        return names.import_on_demand(m, m.frame.module, node.id) or names.builtin(node.id) or m.symbol(node.id)
    return resolve(m, value)


def resolve(m: Machine, value: Value) -> Value:
    """An import becomes what it names; a Select decided on this path becomes the side that holds."""
    if isinstance(value, Imported):
        return names.module_attribute(m, value.module, value.name) or m.symbol(value.name)
    while isinstance(value, Select):
        known = m.assumed(value.key)
        if known is None:
            return value
        value = value.then if known else value.other
    return value


def _attribute(m: Machine, node: ast.Attribute) -> Value:
    return resolve(m, attributes.get(m, evaluate(m, node.value), node.attr, node))


def _subscript(m: Machine, node: ast.Subscript) -> Value:
    owner = evaluate(m, node.value)
    if isinstance(node.slice, ast.Slice):
        return shape_indexing.of_item(owner, node.slice, slices.slice_of(m, owner, node.slice))
    index = evaluate(m, node.slice)
    if isinstance(owner, Symbol) and tables.is_table(owner) and (taken := tables.column(owner, index)) is not None:
        return taken
    found = resolve(m, namespaces.entry(m, owner, index, node) or elements.item(m, owner, index, node))
    number = ast.Constant(index.value) if isinstance(index, Const) and type(index.value) is int else None
    item = shape_indexing.of_item(owner, number or node.slice, found)
    return shape_indexing.of_taken(owner, index, item)


def _call(m: Machine, node: ast.Call) -> Value:
    m.tick()
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    function = evaluate(m, node.func.value if isinstance(node.func, ast.Attribute) else node.func)
    if method and isinstance(function, External | Module | Class | Super | Imported):
        function, method = attributes.get(m, function, method, node.func), ""
    args, kwargs = arguments(m, node)
    if method:
        return m.call_method(function, method, args, kwargs, node)
    return m.call(function, args, kwargs, node)


def arguments(m: Machine, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
    """The call's arguments; a keyword `**` stands for more that are not known."""
    args: list[Value] = []
    known = True
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            spread = evaluate(m, arg.value)
            items = containers.items(m, spread)
            if items is None or (isinstance(spread, Tuple) and spread.open):
                known = False
                args.extend(items or [elements.element(m, spread)])
            else:
                args.extend(items)
        else:
            args.append(evaluate(m, arg))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = evaluate(m, keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        else:
            table = containers.table(m, value)
            if table is None or table.open:
                known = False
            if table is not None:
                kwargs.update({str(key): item for key, item in table.items.items()})
    if not known:
        kwargs["**"] = m.symbol()
    return args, kwargs


def _binary(m: Machine, node: ast.BinOp) -> Value:
    left, right = evaluate(m, node.left), evaluate(m, node.right)
    return shape_rules.of_operation(m, node, left, right, arithmetic.combine(m, type(node.op).__name__, left, right))


def _unary(m: Machine, node: ast.UnaryOp) -> Value:
    value = evaluate(m, node.operand)
    if isinstance(node.op, ast.Not):
        known, key = truth(m, value)
        return Const(not known) if known is not None else Symbol(("not", key))
    if isinstance(node.op, ast.USub) and isinstance(value, Const) and isinstance(value.value, int | float):
        return Const(-value.value)
    if isinstance(value, Tensor):
        kind = value.kind if value.kind in ("loss", "raw") else "other"
        return Tensor(kind, value.place, value.split, value.traces, None, value.shape)
    return Symbol(m.fresh(), "", split_of(value), traces_of(value), shape_rules.of(value))


def _boolean(m: Machine, node: ast.BoolOp) -> Value:
    """`a and b`, `a or b`, short of what is not evaluated."""
    stop = isinstance(node.op, ast.Or)
    parts: list[Hashable] = []
    for operand in node.values:
        value = evaluate(m, operand)
        known, key = truth(m, value)
        if known is stop:
            return value if not parts else Symbol(_combined(stop, [*parts, ("const", stop)]))
        if known is None:
            if stop and operand is not node.values[-1] and isinstance(value, Symbol | Select):
                rest = node.values[node.values.index(operand) + 1]
                if isinstance(rest, ast.Constant | ast.Dict | ast.List | ast.Call | ast.Name) and len(node.values) == 2:
                    return m.branch(key, lambda value=value: value, lambda rest=rest: evaluate(m, rest))  # type: ignore[misc]
            parts.append(key)
    if not parts:
        return value
    return Symbol(_combined(stop, parts)) if len(parts) > 1 else Symbol(parts[0])


def _combined(stop: bool, parts: list[Hashable]) -> Hashable:
    return ("or" if stop else "and", *parts)


def _comparison(m: Machine, node: ast.Compare) -> Value:
    left = evaluate(m, node.left)
    results = []
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(m, comparator)
        results.append(shape_rules.of_operation(m, node, left, right, compare(m, operator, left, right)))
        left = right
    if len(results) == 1:
        return results[0]
    if all(isinstance(result, Const) for result in results):
        return Const(all(result.value for result in results if isinstance(result, Const)))
    return m.symbol()


def _conditional(m: Machine, node: ast.IfExp) -> Value:
    known, key = decide(m, evaluate(m, node.test))
    if known is not None:
        return evaluate(m, node.body if known else node.orelse)
    return m.branch(key, lambda: evaluate(m, node.body), lambda: evaluate(m, node.orelse))


def _lambda(m: Machine, node: ast.Lambda) -> Value:
    info = FunctionInfo(node, m.frame.module, None, "lambda")
    return Function(info, m.close_over(), None, "", m.place(node))


def _named(m: Machine, node: ast.NamedExpr) -> Value:
    value = evaluate(m, node.value)
    assignment.assign(m, node.target, value)
    return value


def _text(m: Machine, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            evaluate(m, part.value)
    return m.symbol()


def _yield(m: Machine, node: ast.Yield | ast.YieldFrom | ast.Await) -> Value:
    value = evaluate(m, node.value)
    if isinstance(node, ast.Await):
        return value
    resume = m.frame.on_yield
    return resume(value) if resume else m.symbol()


_HANDLERS: dict[type, Callable[[Machine, Any], Value]] = by_kind(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: _call,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.BoolOp: _boolean,
        ast.Compare: _comparison,
        ast.IfExp: _conditional,
        ast.Tuple: displays.sequence,
        ast.List: displays.sequence,
        ast.Set: displays.sequence,
        ast.Dict: displays.dictionary,
        ast.Lambda: _lambda,
        ast.ListComp: displays.comprehension,
        ast.SetComp: displays.comprehension,
        ast.GeneratorExp: displays.comprehension,
        ast.DictComp: displays.comprehension,
        ast.NamedExpr: _named,
        ast.JoinedStr: _text,
        ast.Yield: _yield,
        ast.YieldFrom: _yield,
        ast.Await: _yield,
    }
)
