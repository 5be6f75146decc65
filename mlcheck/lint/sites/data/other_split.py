"""Loaders and iterators named for one split over the data of another, where nothing reads their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, reads_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Function
from mlcheck.lint.values import split_of_name

_DRAWN = ("dataset", "sampler", "batch_sampler")
_SPLITS = ("train", "val", "valid", "validation", "test", "eval", "dev")


class OtherSplit(NamedTuple):
    """The loader's name, the data set it is made of, and the one that nothing reads."""

    loader: str
    data: str
    unread: str
    place: Place


def loaders_of_other_split(file: File) -> Iterator[OtherSplit]:
    """`val_loader = DataLoader(test_set)`, beside a `val_set` that nothing reads."""
    for scope, context in file.scopes() if "Loader(" in file.text else ():
        bound = context.scope.bindings
        loaders = [
            name for name in bound if split_of_name(name) and any(_is_loader(each.value) for each in bound[name])
        ]
        for name in loaders:
            for data in _made_of(scope, name):
                split = split_of_name(name)
                siblings = [other for other in bound if stem(other) == stem(data) and split_of_name(other) == split]
                mixed = split_of_name(data) in ("", split) or not stem(data) or len(siblings) != 1
                if split and not mixed and not _is_part(scope, data) and not _is_read(file, scope, siblings[0]):
                    place = file.place(_call_of(scope, name, data), context)
                    yield OtherSplit(name, data, siblings[0], place)


def iterators_of_other_split(file: File) -> Iterator[OtherSplit]:
    """`test_batches = iter(self.train_loader)`, in a function that asks `self.test_loader` for its length alone."""
    for function in file.functions if "iter" in file.text else ():
        for line in function.all(ast.Assign) if "iter" in function.text else ():
            data = _begun(line.value)
            name = last_name(line.targets[0])
            split = split_of_name(name)
            if data is None or not split or split_of_name(last_name(data)) in ("", split):
                continue
            if "train" not in (split, split_of_name(last_name(data))):
                continue
            siblings = {ast.unparse(node) for node in function.nodes if _is_sibling(node, data, split)}
            if len(siblings) == 1 and _is_measured_alone(function, sibling := siblings.pop()):
                yield OtherSplit(name, ast.unparse(data), sibling, function.place(line))


def _begun(node: ast.expr) -> ast.Name | ast.Attribute | None:
    """`loader` of `iter(loader)` and `loader.__iter__()`."""
    match node:
        case ast.Call(func=ast.Name(id="iter"), args=[ast.Name() | ast.Attribute() as data]):
            return data
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as data, attr="__iter__"), args=[]):
            return data
    return None


def _is_sibling(node: ast.AST, data: ast.Name | ast.Attribute, split: str) -> bool:
    """`self.test_loader` of `self.train_loader`."""
    if type(node) is not type(data) or split_of_name(last_name(node)) != split:
        return False
    if stem(last_name(node)) != stem(last_name(data)) or not stem(last_name(data)):
        return False
    return isinstance(node, ast.Name) or ast.unparse(getattr(node, "value", node)) == ast.unparse(
        getattr(data, "value", data)
    )


def _is_measured_alone(function: Function, name: str) -> bool:
    """Whether all that is asked of it in the function is its length."""
    lengths = [ast.unparse(node) for node in function.all(ast.Call) if last_name(node.func) == "len"]
    asked = sum(text.startswith((f"len({name})", f"len({name}.")) for text in lengths)
    named = [
        node for node in function.nodes if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name
    ]
    return 0 < asked == len(named)


def _assignments(scope: ast.AST, name: str) -> list[ast.Assign]:
    nodes = (node for node in walk(scope) if isinstance(node, ast.Assign))
    return [node for node in nodes if [ast.unparse(target) for target in node.targets] == [name]]


def _is_part(scope: ast.AST, name: str) -> bool:
    """Whether it is a part of a data set, of which `split-ignored` tells."""
    lines = (node for node in walk(scope) if isinstance(node, ast.Assign))
    made = [line.value for line in lines if any(name in ast.unparse(target) for target in line.targets)]
    return any(isinstance(each, ast.Call) and last_name(each.func) in ("Subset", "random_split") for each in made)


def _made_of(scope: ast.AST, name: str) -> list[str]:
    """The names of the data that a loader is made of, where it is made once, and of what draws from it."""
    lines = _assignments(scope, name)
    call = lines[0].value if len(lines) == 1 else None
    if not isinstance(call, ast.Call) or not _is_loader(call):
        return []
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg in _DRAWN)]
    return [node.id for node in given if isinstance(node, ast.Name)]


def _is_loader(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func).endswith("Loader")


def _call_of(scope: ast.AST, name: str, data: str) -> ast.AST:
    value = _assignments(scope, name)[0].value
    return next(node for node in walk(value) if isinstance(node, ast.Name) and node.id == data)


def stem(name: str) -> str:
    """`_dataset` of `val_dataset`."""
    words = name.lower().split("_")
    rest = [word for word in words if word not in _SPLITS]
    return "_".join(rest) if len(rest) == len(words) - 1 else ""


def _is_read(file: File, scope: ast.AST, name: str) -> bool:
    elsewhere = isinstance(scope, ast.Module) and any(
        other is not file for other in file.sites.mentioning([name], tests=True)
    )
    return elsewhere or bool(reads_of(walk(scope), name)) or "locals()" in file.text
