"""Batch norms that are put into evaluation mode before training begins, by a loop over the layers of the model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_NORM = pattern(r"batchnorm|_normbase|\bbn\b|norm", re.IGNORECASE)


class Woken(NamedTuple):
    """Where the norms are put into evaluation mode, and the `train()` that puts them back."""

    file: File
    context: Context
    frozen: ast.AST
    train: Call


class _Freezing(NamedTuple):
    """The model as it is written, and the line or call that puts its norms into evaluation mode."""

    model: str
    node: ast.AST
    context: Context


def woken_norms(sites: Sites) -> Iterator[Woken]:
    """`for m in model.modules(): if isinstance(m, BatchNorm2d): m.eval()`, and `model.train()` in the loop below."""
    files = [file for file in sites.mentioning([".eval()"]) if "odules()" in file.text or ".apply(" in file.text]
    freezers = {function for file in files for function in file.functions if _parameter_frozen(function)}
    names = sorted({function.name for function in freezers})
    for file in sites.mentioning([".train()"]) if files else ():
        for freezing in [*_by_loop(file), *_by_call(file, freezers, names)]:
            train = _undone(file, freezing, freezers)
            if train is not None:
                yield Woken(file, freezing.context, freezing.node, train)


def _by_loop(file: File) -> Iterator[_Freezing]:
    for loop, context in file.walk.loops:
        if isinstance(loop, ast.For) and (model := _over_modules(loop)):
            function = file.function_around(context)
            if function is None or model not in function.parameters:
                yield _Freezing(model, loop, context.outer or context)


def _by_call(file: File, freezers: set[Function], names: list[str]) -> Iterator[_Freezing]:
    for call in file.calls(*names) if names else ():
        named = file.resolve(call.node.func, call.context)
        if named in freezers and call.node.args and not call.loops:
            yield _Freezing(ast.unparse(call.node.args[0]), call.node, call.context)
    for call in file.calls("apply"):
        given = call.node.args[0] if len(call.node.args) == 1 else None
        named = file.resolve(given, call.context) if isinstance(given, ast.Name | ast.Attribute) else None
        if named in freezers and call.owner is not None and not call.loops:
            yield _Freezing(ast.unparse(call.owner), call.node, call.context)


def _over_modules(loop: ast.For) -> str:
    """`model` of a loop over its modules that puts norms, and nothing else, into evaluation mode."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=model, attr="modules"), args=[])):
            return ast.unparse(model) if _puts_norms(loop, name) else ""
        case ast.For(
            target=ast.Tuple(elts=[_, ast.Name(id=name)]),
            iter=ast.Call(func=ast.Attribute(value=model, attr="named_modules"), args=[]),
        ):
            return ast.unparse(model) if _puts_norms(loop, name) else ""
    return ""


def _puts_norms(around: ast.AST, name: str) -> bool:
    """`if isinstance(m, nn.BatchNorm2d): m.eval()`."""
    for branch in walk(around):
        if isinstance(branch, ast.If) and _NORM.search(ast.unparse(branch.test)) and not branch.orelse:
            calls = [node for line in branch.body for node in walk(line) if isinstance(node, ast.Call)]
            if any(ast.unparse(call) == f"{name}.eval()" for call in calls):
                return True
    return False


def _parameter_frozen(function: Function) -> bool:
    """`def freeze_bn(net)`, which goes through the modules of what it is given; or is given each of them itself."""
    names = [name for name in function.parameters if name != function.receiver]
    if not names or ".eval()" not in function.text or len(names) > 1:
        return False
    loops = [_over_modules(loop) for loop in function.all(ast.For)]
    return names[0] in loops or (not loops and _puts_norms(function.node, names[0]))


def _undone(file: File, freezing: _Freezing, freezers: set[Function]) -> Call | None:
    """The first `train()` of the model below, before anything else may have been done with it."""
    function = file.function_around(freezing.context)
    if function is not None and freezing.model.startswith("self.") and function.name == "__init__":
        return _in_class(function.cls, freezing.model, freezers)
    line = getattr(freezing.node, "end_lineno", 0) or 0
    below = [
        Call(file, node, context)
        for calls in file.walk.calls.values()
        for node, context in calls
        if node.lineno > line and (file.function_around(context) is function or function is None)
    ]
    for call in sorted(below, key=lambda each: (each.node.lineno, each.node.col_offset)):
        if ast.unparse(call.node.func) == f"{freezing.model}.train":
            return call if _is_plain(call) and not _is_frozen_again(call, freezing, freezers) else None
        given = [*call.node.args, *(word.value for word in call.node.keywords)]
        if any(ast.unparse(each) == freezing.model for each in (call.node.func, *given)):
            return None
    return None


def _in_class(cls: Class | None, model: str, freezers: set[Function]) -> Call | None:
    """`self.model.train()` in a method, in a class that freezes in its constructor alone."""
    if cls is None or any(cls.text.count(f"{freezer.name}(") > 1 for freezer in freezers) or cls.find("train"):
        return None
    if sum(".eval()" in method.text and "odules()" in method.text for method in cls.methods.values()) > 1:
        return None
    trains = [call for call in cls.file.calls("train") if call.cls is cls and call.function is not None]
    return next((call for call in trains if ast.unparse(call.node.func) == f"{model}.train" and _is_plain(call)), None)


def _is_plain(call: Call) -> bool:
    return not call.node.args and not call.node.keywords and not conditions(call.context)


def _is_frozen_again(train: Call, freezing: _Freezing, freezers: set[Function]) -> bool:
    """Whether the code that goes on from there puts the norms back into evaluation mode."""
    function = train.function
    nodes = function.nodes if function is not None else walk(train.file.module.source.tree)
    for node in nodes:
        if node is freezing.node or getattr(node, "lineno", 0) < train.node.lineno:
            continue
        if isinstance(node, ast.For) and _over_modules(node):
            return True
        if isinstance(node, ast.Call):
            if last_name(node.func) in {freezer.name for freezer in freezers} or last_name(node.func) == "apply":
                return True
            if last_name(node.func) == "eval" and not is_name(getattr(node.func, "value", None), freezing.model):
                return True
    return False
