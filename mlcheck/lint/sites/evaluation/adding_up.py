"""What a function adds up over the batches: `total += loss`, `losses.append(loss)`, `meter.add(loss)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_attribute, is_length, is_name, last_name, walk
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.evaluation.stretches import begun, stretch
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import UNKNOWN, Call, Class, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context

DATA_SETS = ("dataset", "_set", "trainset", "testset", "valset")
_SUMS = ("builtins.sum", "numpy.sum", "math.fsum")


_Sums = dict[tuple[str, int], list[ast.expr]]
"""The values that are added to each sum: of those that a name stands for, one after the other."""


class _Added(NamedTuple):
    """The name of a sum, as `sum_name` gives it; what one turn adds to it; and the line that does so."""

    name: str
    value: ast.expr
    node: ast.AST


def added_up(file: File, scope: ast.AST, context: Context) -> _Sums:
    """What is added to each sum; not in loops over single samples, where means and sums are the same."""
    return file.sites.once_of(_added_up, (file, scope, context))


def _added_up(part: tuple[File, ast.AST, Context]) -> _Sums:
    file, scope, context = part
    nodes = file.nodes_in(scope)
    sums = list(_additions(file, nodes, context))
    loops = [node for node in nodes if isinstance(node, ast.For)] if sums else []
    single = [loop for loop in loops if any(map(_is_of_single_samples, origins(file, loop.iter, context)))]
    left_out = {id(node) for loop in single for node in walk(loop)}
    added: _Sums = {}
    begins = begun(nodes, {_begun_as(each.name) for each in sums})
    for each in sums:
        if id(each.node) not in left_out:
            number = stretch(begins, _begun_as(each.name), each.value.lineno)
            added.setdefault((each.name, number), []).append(each.value)
    return added


def _additions(file: File, nodes: list[ast.AST], context: Context) -> Iterator[_Added]:
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            name = sum_name(file, node.target, context)
            yield from [_Added(name, node.value, node)] if name else []
        elif isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.func, ast.Attribute):
            if node.func.attr == "append":
                yield _Added(f"sum({ast.unparse(node.func.value)})", node.args[0], node)
            elif (kept := _kept_by(file, node, context)) is not None:
                yield _Added(f"{ast.unparse(node.func.value)}.{kept}", node.args[0], node)


def _kept_by(file: File, call: ast.Call, context: Context) -> str | None:
    """`value` of `meter.add(x)`, a method of the project that does nothing but `self.value += x`."""
    named = file.resolve(call.func, context) if not call.keywords else None
    if not isinstance(named, Function) or named.cls is None or len(named.parameters) != 2:
        return None
    match [line for line in named.node.body if not _is_docstring(line)]:
        case [ast.AugAssign(target=ast.Attribute(attr=kept) as target, op=ast.Add(), value=ast.Name(id=given))]:
            own = is_attribute(target, named.receiver, kept) and given == list(named.parameters)[1]
            return kept if own else None
    return None


def _is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def sum_name(file: File, node: ast.expr, context: Context) -> str:
    """`total`, `self.total`, `totals["loss"]`, and `sum(losses)` of `sum(losses)` and `np.sum(losses)`; else ""."""
    if isinstance(node, ast.Call):
        whole = len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Name | ast.Attribute)
        named = file.resolve(node.func, context) if whole else None
        return f"sum({ast.unparse(node.args[0])})" if whole and named in _SUMS else ""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return ast.unparse(node) if isinstance(node.value, ast.Name) else ""
    plain = isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
    return ast.unparse(node) if plain else ""


def _begun_as(name: str) -> str:
    """`losses` of `sum(losses)`."""
    return name[len("sum(") : -1] if name.startswith("sum(") else name


def stretch_of(file: File, scope: ast.AST, name: str, line: int) -> int:
    """Which of the sums that stand under the name one after the other a line has to do with."""
    return stretch(begun(file.nodes_in(scope), {_begun_as(name)}), _begun_as(name), line)


def _is_of_single_samples(over: Origin) -> bool:
    """A data set itself, or a loader whose batches hold one sample."""
    if over.name == LOADER and isinstance(over.node, ast.Call):
        call = Call(over.file, over.node, over.context)
        size = call.argument("batch_size", 1)
        told = over.entered.constant(size) if over.entered is not None and size is not None else UNKNOWN
        return 1 in (told, call.constant("batch_size", 1, 1))
    if isinstance(over.node, ast.Call) and is_name(over.node.func, "range"):
        lengths = [arg for arg in over.node.args if isinstance(arg, ast.Call) and is_length(arg) and arg.args]
        return any(last_name(arg.args[0]).lower().endswith(DATA_SETS) for arg in lengths)
    if isinstance(over.node, ast.Call):
        made = over.file.resolve(over.node.func, over.context)
        return isinstance(made, Class) and made.find("__getitem__") is not None
    return last_name(over.node).lower().endswith(DATA_SETS)
