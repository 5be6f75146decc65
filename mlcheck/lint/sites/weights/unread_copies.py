"""Copies of a model that are kept up to date, and that nothing ever reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites

_COPY = pattern(r"(?:^|_)(?:ema|avg|averaged|target|shadow|swa|polyak)(?:_|$)")
_MOVES = pattern(r"ema|soft|hard|polyak|update|moving|average|sync")
_PLAIN = frozenset(["builtins.object", "object", "abc.ABC"])
_WHOLE = pattern(r"__dict__|\.(?:save|dump|deepcopy)\(self[,)]")
_LEAVES = frozenset(
    ["train", "eval", "to", "cuda", "cpu", "parameters", "named_parameters", "buffers", "named_buffers", "modules"]
)
_LEAVES |= {"load_state_dict", "requires_grad_", "requires_grad", "apply", "half", "float", "share_memory"}


class Unread(NamedTuple):
    """The name of the copy, where it is moved, and the entry of a checkpoint that bears its name and holds another."""

    name: str
    moved: Place
    entry: Place | None


def unread_copies(sites: Sites) -> Iterator[Unread]:
    """`target.load_state_dict(model.state_dict())` now and then, where nothing calls, saves or returns `target`."""
    seen: set[str] = set()
    for call, owner in _moves(sites):
        name = last_name(owner)
        if name in seen or name.isupper() or not _COPY.search(name.lower()) or _is_held_elsewhere(call, owner):
            continue
        seen.add(name)
        files = list(sites.mentioning([name], tests=True))
        if not any(".backward(" in file.text for file in sites.mentioning([".backward("])):
            continue
        used = re.compile(rf"\b{name}(?:\(|\.(?:state_dict|forward|module)\b)|return\b.*\b{name}\b")
        if not any(used.search(file.text) for file in files) and all(_is_left_alone(file, name) for file in files):
            yield Unread(name, call.place, _entry(files, name))


def _moves(sites: Sites) -> Iterator[tuple[Call, ast.expr]]:
    for file in sites.mentioning(["state_dict()"]):
        for call in file.calls("load_state_dict"):
            match call.node:
                case ast.Call(func=ast.Attribute(value=owner), args=[ast.Call(func=ast.Attribute(attr="state_dict"))]):
                    if call.function is not None and call.function.name != "__init__":
                        yield call, owner
    for file in sites.mentioning(["parameters()"]):
        for function in file.functions:
            if _MOVES.search(function.name.lower()) and "parameters()" in function.text:
                yield from _given(sites, function)


def _given(sites: Sites, function: Function) -> Iterator[tuple[Call, ast.expr]]:
    for file in sites.mentioning([function.name]):
        for call in file.calls(function.name):
            if file.resolve(call.node.func, call.context) is function and call.loops:
                yield from ((call, arg) for arg in call.node.args if isinstance(arg, ast.Name | ast.Attribute))


def _is_held_elsewhere(call: Call, owner: ast.expr) -> bool:
    """Whether whoever called the function holds it, or it is saved with the module whose attribute it is."""
    if isinstance(owner, ast.Name) and call.function is not None and owner.id in call.function.parameters:
        return True
    method = call.file.method_around(call.context)
    held = isinstance(owner, ast.Attribute)
    return held and (method is None or method.cls is None or bool(method.cls.libraries - _PLAIN))


def _is_left_alone(file: File, name: str) -> bool:
    """Whether each place that names it only moves it, or sets how it computes."""
    if "getattr" in file.text and (f'"{name}"' in file.text or f"'{name}'" in file.text):
        return False
    if _WHOLE.search(file.text):
        return False
    harmless: set[ast.AST] = set()
    nodes = walk(file.module.source.tree)
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="setattr" | "getattr" | "vars"), args=[ast.Name(id="self"), *_]):
                return False
            case ast.Attribute(value=owner, attr=attr) if attr in _LEAVES:
                harmless.add(owner)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr))) if not attr.startswith("save"):
                harmless.add(owner)
            case ast.Call(func=func, args=args) if _MOVES.search(last_name(func).lower()):
                harmless |= set(args)
            case ast.Call(func=func, args=args) if last_name(func) in ("requires_grad", "freeze", "set_requires_grad"):
                harmless |= set(args)
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value) if last_name(target) == name:
                harmless |= {part for part in walk(value) if last_name(part) == name}
    held = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and last_name(node) == name)
    return all(isinstance(node.ctx, ast.Store) or node in harmless for node in held)


def _entry(files: list[File], name: str) -> Place | None:
    """`{"ema": model.state_dict()}`."""
    for file in files:
        for node in walk(file.module.source.tree):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name and "state_dict()" in ast.unparse(value):
                        return file.place(value, file.walk.module)
    return None
