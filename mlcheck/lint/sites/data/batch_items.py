"""From what a loop over a loader brings to what the loader's data set, or its collate function, returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import before_methods, is_name
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import item_of_iteration, part_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call, Class, Function
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.scopes import Binding, Context

_MOVES = ("to", "cuda", "cpu")
_TENSORS = "torch.utils.data.TensorDataset"


def behind_loaders(origin: Origin) -> Iterator[Origin]:
    """Of what a loop over a loader brings, the same item of what its data set returns; all else as it is."""
    node = origin.node
    moved = before_methods(node, _MOVES) if isinstance(node, ast.Call) and _is_move(origin) else node
    yield from list(_samples(origin._replace(node=moved))) or [origin]


def is_settled(file: File, name: str, context: Context) -> bool:
    """Whether a variable is given one value, moved to a device or not: no other one may stand for it."""
    return sum(not _moves(file, binding, name) for binding in file.bindings(name, context)) <= 1


def _is_move(origin: Origin) -> bool:
    """`y.to(device)`, `y.cuda()`, and nothing that may be another type: `y.to(torch.float32)`."""
    calls, node = list[ast.Call](), origin.node
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        calls.append(node)
        node = node.func.value
    given = [each for call in calls for each in (*call.args, *(word.value for word in call.keywords))]
    return not any("dtype" in ast.unparse(each) or "torch." in ast.unparse(each) for each in given)


def _samples(origin: Origin) -> Iterator[Origin]:
    """What stands for `y` of `for x, y in loader`, of `x, y = batch` and of `batch["y"]`, also in a function."""
    file, node, context = origin.file, origin.node, origin.context
    if origin.item >= 0:
        node = ast.Subscript(node, ast.Constant(origin.item), ast.Load())
    item = item_of_iteration(node, context)
    if item is None:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and origin.item < 0:
            whole = [each for each in origins(file, node.value, context) if each.node is not node.value]
            yield from (part for each in whole for part in _samples(_part(each, node.slice)))
        return
    name = next((part.id for part in ast.walk(node) if isinstance(part, ast.Name)), "")
    bound = [each for each in file.bindings(name, context) if each.node is not item.loop.node]
    if all(_moves(file, each, name) for each in bound):
        for made in origins(file, item.over, item.loop):
            yield from _returned(made, item.key)


def _part(whole: Origin, key: ast.expr) -> Origin:
    return whole._replace(node=ast.Subscript(whole.node, key, ast.Load()))


def _moves(file: File, binding: Binding, name: str) -> bool:
    """`y = y.to(device)`: the same values."""
    value = binding.value
    if binding.kind != "value" or not isinstance(value, ast.Call):
        return False
    inner = before_methods(value, _MOVES)
    return is_name(inner, name) and _is_move(Origin(file, value, binding.context))


def _returned(made: Origin, key: int | str) -> Iterator[Origin]:
    """The item of what the loader's data set returns."""
    if not isinstance(made.node, ast.Call) or canonical(made.name) != LOADER:
        return
    call = Call(made.file, made.node, made.context)
    data = call.argument("dataset", 0)
    collate = call.argument("collate_fn", 6)
    if data is None or data is OPEN or collate is not None:
        named = made.file.resolve(collate, made.context) if collate is not None else None
        yield from _parts(named, key) if isinstance(named, Function) else ()
        return
    for origin in origins(made.file, data, made.context):
        if not isinstance(origin.node, ast.Call):
            continue
        if origin.name == _TENSORS and isinstance(key, int) and key < len(origin.node.args):
            yield from origins(origin.file, origin.node.args[key], origin.context)
            continue
        cls = origin.file.resolve(origin.node.func, origin.context)
        sample = cls.find("__getitem__") if isinstance(cls, Class) else None
        yield from _parts(sample, key) if sample is not None else ()


def _parts(function: Function, key: int | str) -> Iterator[Origin]:
    """The item of what a function returns."""
    for given in returns(function):
        part = part_of(source(function.file, given, function.inner)[0], key)
        if part is not None:
            yield from origins(function.file, part, function.inner)
