"""What the names and attributes of a file hold: the expression that they are assigned, and items of dictionaries."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.lint.sites.model import OPEN
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.unrolled import entry_of, entry_of_loop, keys_of, value_for

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.model import Class

_DEPTH = 12


def value_of(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> tuple[ast.expr, Context]:
    """The expression that a name or `self.attribute` holds, where it is assigned once; else the node itself."""
    while depth > 0:
        depth -= 1
        if isinstance(node, ast.Name):
            bindings = file.bindings(node.id, context)
            if len(bindings) != 1 or bindings[0].kind != "value" or not isinstance(bindings[0].value, ast.expr):
                break
            node, context = bindings[0].value, bindings[0].context
        elif isinstance(node, ast.Attribute) and (held := file.held(node, context)):
            node, context = held
        elif isinstance(node, ast.NamedExpr):
            node = node.value
        else:
            break
    return node, context


def held_by(file: File, node: ast.Attribute, context: Context) -> tuple[ast.expr, Context] | None:
    """What `self.attribute` holds, where the class assigns it once, in this file."""
    function = file.function_around(context)
    if function is None or function.cls is None or not isinstance(node.value, ast.Name):
        return None
    if node.value.id != function.receiver:
        return None
    found = function.cls.attribute(node.attr)
    if not found:
        return _of_class(file, function.cls, node.attr)
    if len(found) != 1 or found[0][1].value is None or found[0][0].file is not file:
        return None
    return found[0][1].value, found[0][1].context


def _of_class(file: File, cls: Class, name: str) -> tuple[ast.expr, Context] | None:
    """What the body of a class, and of none beneath it, gives the name, where nothing is set under that name."""
    bound = cls.defined.inner.scope.bindings.get(name, ())
    if len(bound) != 1 or not isinstance(bound[0].node, ast.Assign) or not isinstance(bound[0].value, ast.expr):
        return None
    if cls.node.decorator_list or bound[0].kind != "value":
        return None
    for other in file.sites.mentioning([name], tests=True):
        if any(each.target.attr == name for each in other.walk.attributes):
            return None
        if any(each is not cls and name in each.defined.inner.scope.bindings for each in other.classes):
            return None
    return bound[0].value, bound[0].context


def is_changed(file: File, name: str, context: Context) -> bool:
    """Whether anything in the file changes the contents of what the name holds."""
    bindings = file.bindings(name, context)
    return any(file.bindings(name, where) is bindings for _, where in file.walk.mutations.get(name, ()))


def _may_change(file: File, name: str, context: Context, key: str) -> bool:
    """Whether something may set or take away this key of the dictionary that the name holds."""
    bindings = file.bindings(name, context)
    changed: set[object] = set()
    for node, where in file.walk.mutations.get(name, ()):
        if file.bindings(name, where) is not bindings:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            changed.add(node.slice.value)
            continue
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "update":
            return True
        if any(keyword.arg is None for keyword in node.keywords):
            return True
        changed.update(keyword.arg for keyword in node.keywords)
        for given in (file.value(arg, where)[0] for arg in node.args):
            if not isinstance(given, ast.Dict) or not all(isinstance(part, ast.Constant) for part in given.keys):
                return True
            changed.update(part.value for part in given.keys if isinstance(part, ast.Constant))
    return key in changed


def item_in(file: File, node: ast.expr, context: Context, key: str) -> ast.expr | None:
    """`node[key]` of a dictionary written out; None where it has no such key, OPEN where it cannot be told."""
    if isinstance(node, ast.Name) and file.is_mutated(node.id, context) and _may_change(file, node.id, context, key):
        return _filled_in(file, node, context, key)
    found, where = file.value(node, context)
    if isinstance(found, ast.Call) and file.resolve(found.func, where) == "builtins.dict" and not found.args:
        given = {keyword.arg: keyword.value for keyword in found.keywords}
        return OPEN if None in given else given.get(key)
    if isinstance(found, ast.DictComp) and (keys := keys_of(file, found, where)):
        return file.sites.once_of(value_for, entry_of(found, key)) if key in keys else None
    if not isinstance(found, ast.Dict):
        return OPEN
    for name, value in zip(found.keys, found.values, strict=True):
        if name is None or not isinstance(name, ast.Constant):
            return OPEN
        if name.value == key:
            return value
    return None


def _filled_in(file: File, node: ast.Name, context: Context, key: str) -> ast.expr:
    """`loaders["train"]` of what begins empty and is filled by one line alone: `loaders[split] = ...`, in a loop."""
    bindings = file.bindings(node.id, context)
    made, _ = file.value(node, context)
    begun = (isinstance(made, ast.Dict) and not made.keys) or ast.unparse(made) == "dict()"
    changes = [each for each in file.walk.mutations.get(node.id, ()) if file.bindings(node.id, each[1]) is bindings]
    if begun and len(changes) == 1 and isinstance(changes[0][0], ast.Subscript):
        entry = entry_of_loop(file, changes[0][0], changes[0][1], key)
        return file.sites.once_of(value_for, entry) if entry is not None else OPEN
    return OPEN


def part_at(file: File, node: ast.Subscript, number: object, context: Context) -> ast.expr | None:
    """`"val"` of `modes[1]`, where `modes = ["train", "val"]` and nothing changes it."""
    held, _ = file.value(node.value, context)
    parts = held.elts if isinstance(held, ast.List | ast.Tuple) else []
    if isinstance(node.value, ast.Name) and is_changed(file, node.value.id, context):
        return None
    known = isinstance(number, int) and 0 <= number < len(parts) and ast.Starred not in map(type, parts)
    return parts[number] if known and isinstance(number, int) else None
