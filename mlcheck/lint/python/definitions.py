"""Function and class definitions."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import own_nodes
from mlcheck.lint.program import ClassInfo, FunctionInfo
from mlcheck.lint.python import decorators
from mlcheck.lint.values import Args, Class, Const, External, Function, Imported, Kwargs, Value


def function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    outer = m.frame.info.qualname + "." if m.frame.info else ""
    info = function_info(m, node, None, outer + node.name)
    value = Function(info, m.close_over(), None, "", m.place(node))
    made = decorators.decorated(m, value, info, None)
    if m.frame.info is not None:
        m.nested[node] = made
    m.bind(node.name, made)
    return True


def function_info(
    m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, cls: ClassInfo | None, qualname: str
) -> FunctionInfo:
    module = cls.module if cls else m.frame.module
    generator = "yield" in module.text_of(node) and any(
        isinstance(inner, ast.Yield | ast.YieldFrom) for inner in own_nodes(node)
    )
    return FunctionInfo(node, module, cls, qualname, generator)


def class_(m: Machine, node: ast.ClassDef) -> bool:
    bases = tuple(_base(m, base) for base in node.bases)
    qualname = f"{m.frame.info.qualname}.{node.name}" if m.frame.info else node.name
    info = ClassInfo(node, m.frame.module, qualname, bases, scope=m.close_over())
    for decorator in node.decorator_list:
        value = m.evaluate(decorator.func if isinstance(decorator, ast.Call) else decorator)
        info.dataclass |= isinstance(value, External) and value.name in (
            "dataclasses.dataclass",
            "attr.s",
            "attrs.define",
        )
    info.dataclass |= "typing.NamedTuple" in info.libraries
    _members(m, info, node.body)
    m.bind(node.name, Class(info))
    for decorator in reversed(node.decorator_list):
        plain = m.evaluate(decorator.func) if isinstance(decorator, ast.Call) else None
        if plain is None or isinstance(plain, Function):
            applied = m.evaluate(decorator)
            if isinstance(applied, Function):
                made = m.call(applied, [Class(info)], {}, decorator)
                if isinstance(made, Class):
                    m.bind(node.name, made)
    return True


def named_tuple(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`namedtuple("Batch", "x y")` and `namedtuple("Batch", ["x", "y"])`, as the class that it makes."""
    held = containers.items(m, args[1]) or [args[1]] if len(args) == 2 and not kwargs else []
    words = [item.value for item in (*args[:1], *held) if isinstance(item, Const) and isinstance(item.value, str)]
    if not held or len(words) != 1 + len(held) or not isinstance(node, ast.expr):
        return m.symbol()
    name, fields = words[0], " ".join(words[1:]).replace(",", " ").split()
    made = ast.copy_location(ast.ClassDef(name, [], [], [], []), node)
    info = ClassInfo(made, m.frame.module, name, (External("typing.NamedTuple"),), scope=m.close_over())
    info.assigned, info.annotated, info.dataclass = dict.fromkeys(fields), set(fields), True
    return Class(info)


def _base(m: Machine, node: ast.expr) -> Value:
    value = m.evaluate(node.value if isinstance(node, ast.Subscript) else node)
    return value if not isinstance(value, Imported) else m.symbol()


def _members(m: Machine, info: ClassInfo, body: list[ast.stmt]) -> None:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name = node.name
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
                        name += "=" if decorator.attr == "setter" else "!"
                info.methods[name] = function_info(m, node, info, f"{info.qualname}.{node.name}")
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        info.assigned[target.id] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                info.assigned[name] = value
                info.annotated.add(name)
            case ast.If():
                _members(m, info, node.body)
                _members(m, info, node.orelse)
