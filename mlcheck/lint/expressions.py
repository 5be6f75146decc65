"""What expressions evaluate to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from typing import Any

from mlcheck.lint import (
    attributes,
    calls,
    containers,
    graph,
    names,
    shape_indexing,
    shape_rules,
    slices,
    snapshots,
    statements,
)
from mlcheck.lint.conditions import compare, decide, key_of, truth
from mlcheck.lint.facts import Loop
from mlcheck.lint.machine import Machine
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.turns import leaves_anything
from mlcheck.lint.values import (
    NONE,
    Class,
    Const,
    External,
    Function,
    Imported,
    Module,
    Params,
    Select,
    Super,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    split_of,
    traces_of,
)

_MAX_LITERAL = 64


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
    found = resolve(m, containers.item(m, owner, index, node))
    number = ast.Constant(index.value) if isinstance(index, Const) and type(index.value) is int else None
    return shape_indexing.of_item(owner, number or node.slice, found)


def _call(m: Machine, node: ast.Call) -> Value:
    m.tick()
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    function = evaluate(m, node.func.value if isinstance(node.func, ast.Attribute) else node.func)
    if method and isinstance(function, External | Module | Class | Super | Imported):
        function, method = attributes.get(m, function, method, node.func), ""
    args, kwargs = arguments(m, node)
    if method:
        return calls.call_method(m, function, method, args, kwargs, node)
    return calls.call(m, function, args, kwargs, node)


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
                args.extend(items or [containers.element(m, spread)])
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
    return shape_rules.of_operation(m, node, left, right, arithmetic(m, type(node.op).__name__, left, right))


def arithmetic(m: Machine, operator: str, left: Value, right: Value) -> Value:
    """Numbers fold; adding a constant keeps what a tensor is; a loss stays a loss; concatenation joins sequences."""
    if isinstance(left, Const) and isinstance(right, Const):
        return _fold(m, operator, left.value, right.value)
    if operator == "Add":
        joined = containers.concatenate(m, left, right)
        if joined is not None:
            return joined
    traces, split = graph.joined(m, traces_of(left, right), left, right), split_of(left, right)
    for tensor, factor in ((left, right), (right, left)):
        if not isinstance(tensor, Tensor):
            continue
        kept = tensor.kind == "loss" or tensor.kind == "scaled"
        kept = kept or (isinstance(factor, Const | Symbol) and operator == "Add" and not traces_of(factor))
        kept = kept or (tensor.kind == "raw" and isinstance(factor, Const | Symbol) and operator in ("Mult", "Div"))
        if kept:
            return Tensor(tensor.kind, tensor.place, split, traces, tensor.scaler)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return Tensor("other", None, split, traces)
    if isinstance(left, Params) or isinstance(right, Params):
        return m.symbol()
    key: Hashable = ("bin", operator, key_of(m, left), key_of(m, right))
    return Symbol(key, "", split, traces) if not traces and _shallow(key) else Symbol(m.fresh(), "", split, traces)


def _shallow(key: Hashable, depth: int = 6) -> bool:
    if not isinstance(key, tuple):
        return True
    return depth > 0 and all(_shallow(part, depth - 1) for part in key)


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b if not isinstance(a, str) and not isinstance(b, str) else a[:0],
    "Div": lambda a, b: a / b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b if not isinstance(a, str | bytes) else a,
}


def _fold(m: Machine, operator: str, left: Any, right: Any) -> Value:
    try:
        return Const(_FOLD[operator](left, right))
    except (KeyError, TypeError, ArithmeticError, ValueError):
        return m.symbol()


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


def _tuple(m: Machine, node: ast.Tuple | ast.List | ast.Set) -> Value:
    if len(node.elts) > _MAX_LITERAL:
        return m.symbol()
    found: list[Value] = []
    open_ = False
    for element in node.elts:
        if isinstance(element, ast.Starred):
            spread = evaluate(m, element.value)
            inner = containers.items(m, spread)
            open_ |= inner is None
            found.extend(inner if inner is not None else [containers.element(m, spread)])
        else:
            found.append(evaluate(m, element))
    items = Tuple(tuple(found), open_)
    return items if isinstance(node, ast.Tuple) else containers.new_list(m, items)


def _dict(m: Machine, node: ast.Dict) -> Value:
    if len(node.keys) > _MAX_LITERAL:
        return m.symbol()
    table = Table({})
    open_ = False
    for key, item in zip(node.keys, node.values, strict=True):
        value = evaluate(m, item)
        if key is None:
            inner = containers.table(m, value)
            open_ |= inner is None or inner.open
            table.items.update(inner.items if inner else {})
            continue
        name = evaluate(m, key)
        if isinstance(name, Const) and isinstance(name.value, Hashable):
            table.items[name.value] = value
        else:
            open_ = True
            table.items[("?", m.fresh())] = value
    return containers.new_dict(m, Table(table.items, open_))


def _lambda(m: Machine, node: ast.Lambda) -> Value:
    info = FunctionInfo(node, m.frame.module, None, "lambda")
    return Function(info, m.close_over(), None, "", m.place(node))


def _comprehension(m: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    """Loops walked twice, in a scope of their own; the items are what the element expression gave."""
    outer = m.frame.scope
    m.frame.scope = inner = ("comprehension", m.fresh())
    m.parents[inner] = outer
    found: list[Value] = []
    exact = False
    try:
        first = evaluate(m, node.generators[0].iter)
        exact = len(node.generators) == 1 and not node.generators[0].ifs
        exact = _clauses(m, node, 0, first, found) and exact
    finally:
        m.frame.scope = outer
    if isinstance(node, ast.DictComp):
        if (shared := snapshots.rebuilt(node, first)) is not None:
            return shared
        keyed = [item for item in found if isinstance(item, Tuple) and isinstance(item.items[0], Const)]
        named = {item.items[0].value: item.items[1] for item in keyed if isinstance(item.items[0], Const)}
        if exact and len(named) == len(found):
            return containers.new_dict(m, Table(named))
        values = {("?", m.fresh()): item.items[1] for item in found[:1] if isinstance(item, Tuple)}
        return containers.new_dict(m, Table(values, True))
    items = Tuple(tuple(found) if exact else tuple(found[:1]), not exact)
    return containers.new_list(m, items)


def _clauses(m: Machine, node: Any, depth: int, source: Value, found: list[Value]) -> bool:
    clause = node.generators[depth]
    loop = Loop(node, m.place(node), containers.split_of_iterable(m, source))
    known = containers.finite(m, source)
    turns: list[Value | None] = list(known) if known is not None else [None, None]
    start, facts, first = m.store.mark(), m.facts.total(), m.fresh()
    with m.in_loop(loop):
        for item in turns:
            loop.turn += 1
            value = item if item is not None else containers.element(m, source)
            statements.assign(m, clause.target, value)
            for test in clause.ifs:
                evaluate(m, test)
            if depth + 1 < len(node.generators):
                _clauses(m, node, depth + 1, evaluate(m, node.generators[depth + 1].iter), found)
            elif isinstance(node, ast.DictComp):
                found.append(Tuple((evaluate(m, node.key), evaluate(m, node.value))))
            else:
                found.append(evaluate(m, node.elt))
            if known is None and facts == m.facts.total() and not leaves_anything(m, start, first, clause):
                break
    return known is not None


def _named(m: Machine, node: ast.NamedExpr) -> Value:
    value = evaluate(m, node.value)
    statements.assign(m, node.target, value)
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


_HANDLERS: dict[type[ast.expr], Callable[[Machine, Any], Value]] = {
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
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Set: _tuple,
    ast.Dict: _dict,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _named,
    ast.JoinedStr: _text,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: _yield,
}
