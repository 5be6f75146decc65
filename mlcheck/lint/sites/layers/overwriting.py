"""What a function changes in place: by a layer or a function told to, by a method with `_` at its end, by `+=`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.scopes import Context

_LAYERS = {"ReLU": 0, "ReLU6": 0, "LeakyReLU": 1, "ELU": 1, "SELU": 0, "CELU": 1, "SiLU": 0, "Mish": 0}
_LAYERS |= {"Hardswish": 0, "Hardsigmoid": 0, "Hardtanh": 2, "RReLU": 2, "Threshold": 2}
METHODS = frozenset(
    f"{name}_"
    for name in (
        *("add", "sub", "mul", "div", "pow", "clamp", "clamp_min", "clamp_max", "relu", "sigmoid", "tanh", "exp"),
        *("log", "sqrt", "neg", "abs", "round", "floor", "square", "sin", "cos", "masked_fill", "zero", "fill"),
        *("normal", "uniform", "bernoulli", "lerp", "addcmul", "copy"),
    )
)
_NAMES = (".relu_", ".elu_", ".leaky_relu_", ".selu_")
_DEPTH = 4


class Overwriting(NamedTuple):
    """A change of the tensor `name` in place; `result` is the name its result is given, "" where it has none.

    `certain`: only a tensor can be changed so. `is_layer`: an activation that makes one tensor of another.
    `loops`: it stands in a loop.
    """

    name: str
    node: ast.stmt | ast.expr
    result: str
    certain: bool
    is_layer: bool
    loops: bool


def overwritings(function: Function) -> tuple[Overwriting, ...]:
    """What a function changes in place, in the order of its text."""
    return function.file.sites.once_of(_overwritings, function)


def _overwritings(function: Function) -> tuple[Overwriting, ...]:
    calls = function.all(ast.Call)
    if not function.all(ast.AugAssign) and not any(_owner_changed(c) or _argument_changed(function, c) for c in calls):
        return ()
    found = _in_block(function, function.node.body, False)
    return tuple(sorted(found, key=lambda change: (change.node.lineno, change.node.col_offset)))


def _in_block(function: Function, body: list[ast.stmt], loops: bool) -> Iterator[Overwriting]:
    for statement in body:
        inside = loops or isinstance(statement, ast.For | ast.While)
        for _, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from _in_block(function, value, inside)
            elif isinstance(value, list) and value and isinstance(value[0], ast.excepthandler):
                yield from (change for handler in value for change in _in_block(function, handler.body, inside))
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            yield Overwriting(statement.target.id, statement, statement.target.id, False, False, loops)
        elif isinstance(statement, ast.Assign | ast.Expr | ast.Return):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            result = target.id if isinstance(target, ast.Name) else ""
            yield from _in_expression(function, statement.value, result, loops, isinstance(statement, ast.Expr))


def _in_expression(
    function: Function, value: ast.expr | None, result: str, loops: bool, alone: bool
) -> Iterator[Overwriting]:
    nodes = walk(value) if value is not None else []
    named = {node.value: node.target.id for node in nodes if isinstance(node, ast.NamedExpr)}
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        result = named.get(node, result)
        if name := _owner_changed(node):
            yield Overwriting(name, node, result or name, True, False, loops)
        elif name := _argument_changed(function, node):
            yield Overwriting(name, node, name if alone and node is value else result, True, True, loops)


def _owner_changed(call: ast.Call) -> str:
    """`x` of `x.add_(...)`."""
    func = call.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.attr in METHODS:
        return func.value.id
    return ""


def _argument_changed(function: Function, call: ast.Call) -> str:
    """`x` of `F.relu(x, inplace=True)`."""
    given = call.args[0] if call.args else None
    return given.id if isinstance(given, ast.Name) and _is_in_place(function, call) else ""


def _is_in_place(function: Function, call: ast.Call) -> bool:
    """`F.relu(x, inplace=True)`, `torch.relu_(x)`, and `self.act(x)` of a layer made with `inplace=True`."""
    name = own_attribute(call.func, function)
    if name and function.cls is not None and name in function.file.sites.once_of(_layers_in_place, function.cls):
        return True
    told = _is_true(call, None)
    if not told and not last_name(call.func).endswith("_"):
        return False
    named = function.file.resolve(call.func, function.inner)
    name = named if isinstance(named, str) else ""
    return (told and name.startswith("torch.nn.functional.")) or (name.startswith("torch.") and name.endswith(_NAMES))


def _layers_in_place(cls: Class) -> frozenset[str]:
    """The attributes of a class that change what they are called with."""
    return frozenset(name for base in cls.line for name in base.attributes if _is_layer_in_place(cls, name))


def _is_layer_in_place(cls: Class, name: str) -> bool:
    sets = cls.attribute(name)
    if len(sets) != 1 or not isinstance(sets[0][1].value, ast.Call):
        return False
    made = sets[0][1].value
    named = sets[0][0].file.resolve(made.func, sets[0][1].context)
    last = canonical(named).removeprefix("torch.nn.") if isinstance(named, str) else ""
    if last in _LAYERS:
        return _is_true(made, _LAYERS[last])
    return _begins_in_place(sets[0][0].file, made, sets[0][1].context)


def _begins_in_place(file: File, made: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """`nn.Sequential(nn.ReLU(inplace=True), ...)`, or a module of the project whose `forward` starts with such."""
    if not isinstance(made, ast.Call) or depth <= 0:
        return False
    named = file.resolve(made.func, context)
    if isinstance(named, Class):
        return _changes_argument(named, depth)
    last = canonical(named).removeprefix("torch.nn.") if isinstance(named, str) else ""
    if last in _LAYERS:
        return _is_true(made, _LAYERS[last])
    return last == "Sequential" and bool(made.args) and _begins_in_place(file, made.args[0], context, depth - 1)


def _changes_argument(cls: Class, depth: int) -> bool:
    """`def forward(self, x): return self.body(x)`, where the first layer of `body` changes `x`."""
    forward = cls.methods.get("forward")
    names = list(forward.parameters)[1:2] if forward is not None else []
    first = forward.node.body[0] if forward is not None else None
    if forward is None or not names or not isinstance(first, ast.Return | ast.Assign):
        return False
    for call in walk(first.value) if first.value is not None else ():
        if isinstance(call, ast.Call) and len(call.args) == 1 and ast.unparse(call.args[0]) == names[0]:
            layer = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            sets = cls.attribute(layer) if ast.unparse(call.func) == f"self.{layer}" else []
            made = sets[0][1].value if len(sets) == 1 else None
            if made is not None and _begins_in_place(sets[0][0].file, made, sets[0][1].context, depth - 1):
                return True
    return False


def _is_true(call: ast.Call, position: int | None) -> bool:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "inplace"]
    if position is not None:
        given += call.args[position : position + 1]
    return bool(given) and isinstance(given[0], ast.Constant) and given[0].value is True


def begins_with_relu(function: Function, call: ast.Call) -> bool:
    """`self.shortcut(x)`, of a layer that is a ReLU, or a `Sequential` whose first layer is one."""
    sets = function.cls.attribute(own_attribute(call.func, function)) if function.cls is not None else []
    made = sets[0][1].value if len(sets) == 1 else None
    while isinstance(made, ast.Call) and last_name(made.func) == "Sequential" and made.args:
        made = made.args[0]
    return isinstance(made, ast.Call) and last_name(made.func) == "ReLU"


def is_changed_anyway(function: Function, later: ast.Name) -> bool:
    """`cell(x, y)`, some layer out of a loop, or one whose own first step is a ReLU: to apply it twice is no more."""
    for call in function.all(ast.Call):
        if later in call.args:
            loops = [loop for loop in function.all(ast.For) if any(node is call for node in walk(loop))]
            brought = {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}
            return last_name(call.func) in brought or begins_with_relu(function, call)
    return False
