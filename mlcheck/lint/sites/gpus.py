"""The numbers of GPUs where `CUDA_VISIBLE_DEVICES` is set: the visible ones are counted anew, from 0."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.settings import setting

_DEVICE = pattern(r"cuda:(\d+)")
_NUMBERS = pattern(r"\d+(?:,\s*\d+)*")


def renumbered(file: File, node: ast.AST, context: Context) -> Iterator[Finding]:
    """`"cuda:2"` where GPU 2 is the only visible one: it is `cuda:0` from then on."""
    chosen = _given(file, node, context)
    if isinstance(chosen, ast.Constant) and isinstance(chosen.value, str):
        yield from _beyond(file, node, context, chosen.value)
        return
    if isinstance(chosen, ast.Call) and is_name(chosen.func, "str") and chosen.args:
        chosen = chosen.args[0]
    elif isinstance(chosen, ast.JoinedStr) and len(chosen.values) == 1:
        chosen = chosen.values[0].value if isinstance(chosen.values[0], ast.FormattedValue) else None
    else:
        return
    nodes, line = walk(_scope(file, context)), getattr(node, "lineno", 0)
    if chosen is None or any(_sets(other, ast.unparse(chosen)) and other.lineno > line for other in nodes):
        return
    yield from _chosen_again(file, node, context, chosen)
    yield from _asked_again(file, node, context, chosen)
    for other in nodes:
        if not isinstance(other, ast.JoinedStr) or len(other.values) != 2 or other.lineno < line:
            continue
        first, index = other.values
        if isinstance(first, ast.Constant) and first.value == "cuda:" and isinstance(index, ast.FormattedValue):
            if ast.unparse(index.value) == ast.unparse(chosen):
                yield Finding(
                    f"`{ast.unparse(other)[2:-1]}` is not that GPU: the visible ones are counted anew, from 0",
                    file.place(other, context).location,
                    help="use `cuda:0`, or leave `CUDA_VISIBLE_DEVICES` alone",
                    related=(file.place(node, context).location,),
                )


def _chosen_again(file: File, node: ast.AST, context: Context, chosen: ast.expr) -> Iterator[Finding]:
    """`torch.cuda.set_device(local_rank)`, where that GPU is the only visible one."""
    for call in file.calls("set_device"):
        given = call.argument("device", 0)
        if file.called(call.node, call.context) != "torch.cuda.set_device" or given is None:
            continue
        same = call.function is file.function_around(context) and ast.unparse(given) == ast.unparse(chosen)
        if same and call.node.lineno > getattr(node, "lineno", 0) and not call.context.excludes(context):
            yield Finding(
                f"There is no GPU `{ast.unparse(given)}`: one is visible, counted anew from 0",
                call.place.location,
                help="use GPU 0, or leave `CUDA_VISIBLE_DEVICES` alone",
                related=(file.place(node, context).location,),
            )


def _asked_again(file: File, node: ast.AST, context: Context, chosen: ast.expr) -> Iterator[Finding]:
    """`torch.device("cuda", args.gpu)` and `model.cuda(args.gpu)`, where that GPU is the only visible one."""
    for call in file.calls("device", "cuda"):
        last = last_name(call.node.func)
        of_torch = file.called(call.node, call.context) == "torch.device" and call.constant("type", 0) == "cuda"
        given = call.argument("index", 1) if of_torch else call.argument("device", 0) if last == "cuda" else None
        if given is None or ast.unparse(given) != ast.unparse(chosen) or call.context.excludes(context):
            continue
        if call.function is file.function_around(context) and call.node.lineno > getattr(node, "lineno", 0):
            yield Finding(
                f"`{ast.unparse(given)}` is not that GPU: the visible ones are counted anew, from 0",
                call.place.location,
                help="use GPU 0, or leave `CUDA_VISIBLE_DEVICES` alone",
                related=(file.place(node, context).location,),
            )


def written_as_list(file: File, node: ast.AST, context: Context) -> Iterator[Finding]:
    """`str([0, 1])` is "[0, 1]", with a bracket that CUDA cannot read."""
    chosen = _given(file, node, context)
    if not isinstance(chosen, ast.Call) or file.resolve(chosen.func, context) not in ("builtins.str", "builtins.repr"):
        return
    for given in chosen.args[:1]:
        value, where = file.value(given, context)
        entry = setting(file, value, where)
        if isinstance(entry.node if entry is not None else value, ast.List | ast.Tuple):
            yield Finding(
                f"`{ast.unparse(chosen)}` is written with brackets, which CUDA cannot read: no GPU is visible",
                file.place(node, context).location,
                help=f'`",".join(map(str, {ast.unparse(given)}))`',
            )


def _given(file: File, node: ast.AST, context: Context) -> ast.expr | None:
    """What is assigned to this place."""
    lines = walk(_scope(file, context))
    return next((line.value for line in lines if isinstance(line, ast.Assign) and node in line.targets), None)


def _beyond(file: File, node: ast.AST, context: Context, visible: str) -> Iterator[Finding]:
    """`"cuda:3"` behind `CUDA_VISIBLE_DEVICES = "3"`: one is visible, and it is number 0."""
    if _NUMBERS.fullmatch(visible) is None or file.text.count("CUDA_VISIBLE_DEVICES") != 1:
        return
    if context.kind not in ("module", "function"):
        return
    count, line = len(visible.split(",")), getattr(node, "lineno", 0)
    for other in walk(_scope(file, context)):
        named = _numbered(other) if getattr(other, "lineno", 0) > line else None
        if named is not None and named[1] >= count:
            yield Finding(
                f"There is no `{named[0]}`: {count} GPU{'s are' if count > 1 else ' is'} visible, counted anew from 0",
                file.place(other, context).location,
                help=f"use a number below {count}, or leave `CUDA_VISIBLE_DEVICES` alone",
                related=(file.place(node, context).location,),
            )


def _numbered(node: ast.AST) -> tuple[str, int] | None:
    """`cuda:3` and 3 of `"cuda:3"`, `set_device(3)`, `model.cuda(3)` and `DataParallel(model, device_ids=[2, 3])`."""
    if _is_text(node):
        match = _DEVICE.fullmatch(str(node.value))
        return (match[0], int(match[1])) if match is not None else None
    if not isinstance(node, ast.Call):
        return None
    last = last_name(node.func)
    given = [word.value for word in node.keywords if word.arg == "device_ids"] if last.endswith("DataParallel") else []
    if (last == "cuda" and isinstance(node.func, ast.Attribute)) or last == "set_device":
        given = node.args[:1]
    numbers = [
        part.value
        for each in given
        for part in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])
        if isinstance(part, ast.Constant) and type(part.value) is int
    ]
    return (f"cuda:{max(numbers)}", max(numbers)) if numbers else None


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _sets(node: ast.AST, written: str) -> TypeGuard[ast.expr]:
    """Whether the variable or attribute is assigned here."""
    return (
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node) == written
    )


def _scope(file: File, context: Context) -> ast.AST:
    function = file.function_around(context)
    return function.node if function is not None else file.module.source.tree


def is_gpu(file: File, device: ast.expr, context: Context) -> bool:
    """`"cuda"`, and `self.device` that is `torch.device("cuda" if torch.cuda.is_available() else "cpu")`."""
    known = file.constant(device, context)
    if isinstance(known, str):
        return _names_gpu(known)
    found = origins(file, device, context)
    return bool(found) and all(_makes_gpu(each) for each in found)


def _makes_gpu(device: Origin) -> bool:
    node = device.node
    if isinstance(node, ast.Call) and device.name == "torch.device" and node.args:
        arms = [node.args[0].body, node.args[0].orelse] if isinstance(node.args[0], ast.IfExp) else [node.args[0]]
        return any(_is_name_of_gpu(device, arm) for arm in arms)
    return isinstance(node, ast.Constant) and _names_gpu(node.value)


def _is_name_of_gpu(device: Origin, arm: ast.expr) -> bool:
    """`"cuda"`, or a parameter that is nothing else whoever calls."""
    known = device.file.constant(arm, device.context)
    if not isinstance(arm, ast.Name) or isinstance(known, str):
        return _names_gpu(known)
    found = origins(device.file, arm, device.context)
    return bool(found) and all(isinstance(each.node, ast.Constant) and _names_gpu(each.node.value) for each in found)


def _names_gpu(value: object) -> bool:
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))
