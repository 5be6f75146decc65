"""Operations whose gradient is computed from their result: nobody may change that before the backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.judging import names_evaluation
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import only_where_asked, own_attribute
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.layers.overwriting import Overwriting
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context

_KEEP = frozenset(["sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "relu"])
_LAYERS = frozenset(f"torch.nn.{name}" for name in ("Sigmoid", "Tanh", "Softmax", "LogSoftmax", "ReLU"))
_NO_GRADIENT = ("no_grad", "inference_mode", "detach(", "set_grad_enabled")
_INFERS = ("generate", "sample", "decode", "detect", "greedy", "beam")
_DEPTH = 4


def kept_result(function: Function, change: Overwriting) -> ast.Call | None:
    """The operation that gave the changed name its value, where that depends on weights and is kept."""
    node = _changed(change.node)
    text = function.text + "".join(map(ast.unparse, function.node.decorator_list))
    if not isinstance(node, ast.Name) or change.is_layer or any(word in text for word in _NO_GRADIENT):
        return None
    if _only_infers(function):
        return None
    bound = latest(function.file, node, function.inner)
    if bound is None or bound.kind != "value" or not isinstance(bound.value, ast.Call):
        return None
    given = _operand(function, bound.value, bound.context)
    if given is None or not _is_learned(function, given, bound.context) or only_where_asked(function, change.node):
        return None
    return bound.value


def _only_infers(function: Function) -> bool:
    """`generate` or `predict`, which no other method calls."""
    methods = function.cls.methods.values() if function.cls is not None else ()
    text = "".join(method.text for method in methods if method is not function)
    named = names_evaluation(function.name) or function.name.startswith(_INFERS)
    return named and f".{function.name}(" not in text


def written_into(function: Function) -> Iterator[Overwriting]:
    """`weights[:, mask] = 0`, `gate[0] *= 2`: a part of a tensor is changed."""
    changes: list[tuple[ast.stmt, ast.expr]] = [(line, line.targets[0]) for line in function.all(ast.Assign)]
    changes += [(line, line.target) for line in function.all(ast.AugAssign)]
    for node, target in changes:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            yield Overwriting(target.value.id, node, "", True, False, False)


def _changed(node: ast.AST) -> ast.expr | None:
    """What a line changes: `x` of `x += 1`, `x[0] = 1` and `x.add_(1)`."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=whole)]) | ast.AugAssign(target=ast.Subscript(value=whole)):
            return whole
        case ast.AugAssign(target=target):
            return target
        case ast.Call(func=ast.Attribute(value=owner)):
            return owner
    return None


def _operand(function: Function, call: ast.Call, context: Context) -> ast.expr | None:
    """What `torch.sigmoid(x)`, `x.sigmoid()` or `self.act(x)` is taken of."""
    named = function.file.resolve(call.func, context)
    first = call.args[0] if call.args else None
    if isinstance(named, str):
        of_torch = named.startswith(("torch.nn.functional.", "torch.")) and named.rpartition(".")[2] in _KEEP
        return first if of_torch else None
    if name := own_attribute(call.func, function):
        sets = function.cls.attribute(name) if function.cls is not None else []
        made = [where.file.called(assigned.value, assigned.context) for where, assigned in sets]
        return first if len(made) == 1 and made[0] in _LAYERS else None
    return call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in _KEEP else None


def _is_learned(function: Function, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether a layer of the class with weights certainly has a hand in it."""
    node, context = source(function.file, node, context)
    for part in walk(node):
        name = own_attribute(part.func, function) if isinstance(part, ast.Call) else ""
        sets = function.cls.attribute(name) if name and function.cls is not None else []
        values = [(where.file, assigned.value or assigned.unpacked, assigned.context) for where, assigned in sets]
        if values and all(value is not None and holds_parameters(file, value, at) for file, value, at in values):
            return True
    names = [part for part in walk(node) if isinstance(part, ast.Name)] if depth else []
    return any(
        source(function.file, part, context)[0] is not part and _is_learned(function, part, context, depth - 1)
        for part in names
    )
