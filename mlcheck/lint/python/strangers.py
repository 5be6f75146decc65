"""Arguments nobody in the project passes: what their annotation, default and name promise, and no more."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import Grads, Mode
from mlcheck.lint.interpret.frames import DeadPath, Frame, Sink
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import last_name
from mlcheck.lint.program import ClassInfo
from mlcheck.lint.python import instances
from mlcheck.lint.pytorch import frameworks, pretrained
from mlcheck.lint.sites.layers.only_model import only_model
from mlcheck.lint.sites.model import Function as Defined
from mlcheck.lint.values import Class, External, Function, Object, Symbol, Value, split_of_name

_MAX_DEPTH = 5
_SWITCHES = ("eval", "train", "apply", "freeze", "prepare")
_PLAIN_BASES = frozenset(["builtins.object", "abc.ABC"])


def argument(m: Machine, function: Function, parameter: ast.arg) -> Value:
    """A symbol of the parameter's name; an object of unknown state where the annotation names its class.

    A loss that is the default is taken for what it is given: `def __init__(self, loss=nn.CrossEntropyLoss())`.
    """
    name = parameter.arg
    made = Symbol(m.fresh(), name, split_of_name(name))
    loss = _default(function, parameter)
    if isinstance(loss, ast.Call) and last_name(loss.func).endswith("Loss"):
        return _in_scope(m, function, loss)
    promised = _annotation(m, function, parameter)
    cls = function.info.cls
    if cls is not None and name == "context" and frameworks.owner_of(cls) == "determined":
        return Object(frameworks.CONTEXT, m.fresh())
    if isinstance(promised, External):
        if promised.name == frameworks.CONTEXT:
            return Object(frameworks.CONTEXT, m.fresh())
        if promised.name == "torch.nn.Module":
            m.store.set(("owner", made.key), True)
        elif promised.name.startswith("torch.optim.") and "lr_scheduler" not in promised.name:
            m.store.set(("grads", made.key), frozenset([Grads("unknown")]))
        elif promised.name.endswith("GradScaler"):
            return Object(promised.name, m.fresh())
    elif isinstance(promised, Class) and len(m.frames) <= _MAX_DEPTH:
        return instance(m, promised, parameter)
    return made


def _annotation(m: Machine, function: Function, parameter: ast.arg) -> Value | None:
    node = parameter.annotation or _of_only_model(m, function, parameter)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        node = ast.copy_location(ast.Name(node.value, ast.Load()), node)
    return _in_scope(m, function, node) if isinstance(node, ast.Name | ast.Attribute) else None


def _of_only_model(m: Machine, function: Function, parameter: ast.arg) -> ast.Name | None:
    """The program's one model, where the function treats the parameter as such."""
    file = m.facts.sites.at(function.info.module.source.path)
    found = file.definitions.get(function.info.node) if file is not None else None
    name = only_model(found, parameter.arg) if isinstance(found, Defined) else ""
    return ast.copy_location(ast.Name(name, ast.Load()), parameter) if name else None


def _default(function: Function, parameter: ast.arg) -> ast.expr | None:
    spec = function.info.node.args
    late = [*spec.posonlyargs, *spec.args][::-1]
    pairs = [*zip(late, spec.defaults[::-1], strict=False), *zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    return next((default for each, default in pairs if each is parameter), None)


def _in_scope(m: Machine, function: Function, node: ast.expr) -> Value:
    """The value of an expression in the line that defines a function."""
    m.frames.append(Frame(function.info.module, function.scope, Sink(m.store.mark()), m.frame.call))
    try:
        return m.evaluate(node)
    finally:
        m.frames.pop()


def instance(m: Machine, cls: Class, node: ast.AST) -> Value:
    """An instance nobody is known to have made: constructed, and since then in any state.

    In any mode as well, unless nothing in the program puts a module in eval mode.
    """
    mark, depth = m.store.mark(), len(m.frames)
    try:
        made = instances.instantiate(m, cls.info, [], {"**": m.symbol()}, node)
    except DeadPath:
        del m.frames[depth:]
        return m.symbol()
    _unsettle(m, cls.info, made, mark)
    return made


def _unsettle(m: Machine, info: ClassInfo, made: Value, mark: int) -> None:
    """What was set since the mark may have been set otherwise by now."""
    quiet = m.relevance.called.isdisjoint(_SWITCHES)
    left_alone = quiet and isinstance(made, Object) and frameworks.keeps_modes(info)
    loaded = list(pretrained.parts(m, made)) if left_alone and isinstance(made, Object) else []
    for cell in m.store.changed(mark):
        if cell[0] == "mode" and not (quiet and info.libraries <= _PLAIN_BASES):
            m.store.set(cell, frozenset([Mode("unknown", None, None, m.fresh())]))
        elif cell[0] == "grads":
            m.store.set(cell, frozenset([Grads("unknown")]))
    for part in loaded:
        pretrained.put_back(m, part)
