"""Pairs of functions that scale and scale back, tried out on numbers."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator
from zlib import crc32

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites

_PAIRS = (
    *(("transform", name) for name in ("inverse_transform", "inverse", "inv_transform", "untransform")),
    *(("normalize", name) for name in ("denormalize", "unnormalize", "denorm", "inverse")),
    *(("normalise", name) for name in ("denormalise", "unnormalise", "inverse")),
    *(("standardize", name) for name in ("destandardize", "unstandardize")),
    *(("scale", name) for name in ("unscale", "rescale", "descale", "inverse")),
    *(("norm", "denorm"), ("encode", "decode")),
)
_OPERATIONS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_FUNCTIONS = {"log": math.log, "exp": math.exp, "log1p": math.log1p, "expm1": math.expm1, "sqrt": math.sqrt}
_LIBRARIES = ("np", "numpy", "torch", "math")
_KEEPS = frozenset(["to", "float", "double", "cpu", "numpy", "detach", "clone", "view", "reshape", "astype", "type_as"])
_SMALL = pattern(r"eps|tiny|smooth")
_DATA, _NEAR, _TRIES = (0.7, 1.9, 3.3), 0.02, 3


class NotUndone(NamedTuple):
    """The function that was to undo the other, and the one it does not undo."""

    back: Function
    there: Function


class _Open(Exception):
    """A value that the text does not tell."""


def not_undone(sites: Sites) -> Iterator[NotUndone]:
    """`(x - low) / (high - low)` beside `(z + low) * (high - low)`."""
    for file in sites.mentioning([f"def {name}(" for name in {back for _, back in _PAIRS}]) if sites.uses_torch else ():
        for functions in ({f.name: f for f in file.functions if f.cls is None}, *map(_methods, file.classes)):
            for there, back in _PAIRS:
                if there in functions and back in functions and _differ(functions[there], functions[back]):
                    yield NotUndone(functions[back], functions[there])


def _methods(cls: Class) -> dict[str, Function]:
    return cls.methods


def _differ(there: Function, back: Function) -> bool:
    """Whether both are formulas, and the second brings none of some numbers back, whatever the others are."""
    if not _names(back) <= _names(there):
        return False
    off = 0
    for number in range(_TRIES):
        for value in _DATA:
            try:
                scaled = _result(there, value, number)
                found = _result(back, scaled, number)
            except (_Open, ValueError, ZeroDivisionError, OverflowError, TypeError):
                return False
            if isinstance(found, complex) or isinstance(scaled, complex) or abs(scaled - value) < _NEAR / 10:
                return False
            off += abs(found - value) > _NEAR * (1 + abs(value))
    return off > _TRIES * len(_DATA) // 2  # some may come back by chance


def _names(function: Function) -> set[str]:
    """The numbers that a function takes beside its data: its other parameters, and attributes."""
    read = {ast.unparse(node) for node in function.all(ast.Attribute) if ast.unparse(node.value) == function.receiver}
    return read | set([name for name in function.parameters if name != function.receiver][1:])


def _result(function: Function, value: float, number: int) -> float:
    """What a function of a single way returns for a value, in a try that gives each other name the same number."""
    names = [name for name in function.parameters if name != function.receiver]
    if not names or function.node.decorator_list:
        raise _Open
    held = {names[0]: value}
    for line in function.node.body:
        match line:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=made):
                held[name] = _value(made, held, function, number)
            case ast.Return(value=ast.expr() as given):
                return _value(given, held, function, number)
            case _:
                raise _Open
    raise _Open


def _value(node: ast.expr, held: dict[str, float], function: Function, number: int) -> float:
    match node:
        case ast.Constant(value=int() | float() as constant):
            return float(constant)
        case ast.Name(id=name):
            return held[name] if name in held else _given(name, function, number)
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == function.receiver:
            return _named(f"self.{name}", number)
        case ast.Subscript(value=inner, slice=index) if not _reads(inner, held):
            return _named(f"{ast.unparse(inner)}[{ast.unparse(index)}]", number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            sides = (_value(side, held, function, number) for side in (left, right))
            return _OPERATIONS[type(op)](*sides)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, held, function, number)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=library), attr=name), args=[inner], keywords=[]) if (
            library in _LIBRARIES and name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](_value(inner, held, function, number))
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _KEEPS:
            return _value(inner, held, function, number)
    raise _Open


def _reads(node: ast.expr, held: dict[str, float]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in held for part in ast.walk(node))


def _given(name: str, function: Function, number: int) -> float:
    """A parameter, which the other function calls by the same name; nothing else is known."""
    if name not in function.parameters and last_name(ast.parse(name, mode="eval").body) != name.upper():
        raise _Open
    return _named(name, number)


def _named(name: str, number: int) -> float:
    """A number for a name, the same wherever it stands: a large one for an upper end, hardly any for an epsilon."""
    if _SMALL.search(name.lower()):
        return 1e-9
    place = crc32(f"{name} {number}".encode()) % 997 / 997
    upper = any(word in name.lower() for word in ("max", "high", "upper"))
    return (7.0 if upper else 0.8) + 4 * place
