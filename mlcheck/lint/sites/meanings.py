"""What the names of a file stand for: objects of libraries, and parts of the project."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.model import OPEN, Class, Named, ProjectModule
from mlcheck.lint.sites.objects import method_of_object
from mlcheck.lint.sites.scopes import Binding, Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File

_DEPTH = 12
_FEW = 8
_BUILTINS = frozenset(dir(builtins))
STARRED = ("torch.nn.functional", "torch.nn", "torch.optim", "torch.utils.data", "torch")


def resolved(file: File, node: ast.AST | None, context: Context, depth: int = _DEPTH) -> Named:
    """What a name or a dotted name stands for: a library object by its full name, or a part of the project."""
    if isinstance(node, ast.Attribute):
        owner = file.resolve(node.value, context, depth)
        if isinstance(owner, str):
            return f"{owner}.{node.attr}"
        if isinstance(owner, ProjectModule):
            return file.sites.member(owner, node.attr, depth)
        if isinstance(owner, Class):
            return owner.find(node.attr)
        return _method(file, node, context) or method_of_object(file, node, context, depth)
    if isinstance(node, ast.Subscript | ast.Call):
        return _looked_up(file, node, context, depth - 1) if depth > 0 else None
    if not isinstance(node, ast.Name) or depth <= 0:
        return None
    bindings = file.bindings(node.id, context)
    if not bindings:
        return file.starred(node.id, depth) or (f"builtins.{node.id}" if node.id in _BUILTINS else None)
    key = id(bindings), depth
    if key not in file.meant:
        file.meant[key] = _agreed(file, bindings, depth)
    return file.meant[key]


def _looked_up(file: File, node: ast.Subscript | ast.Call, context: Context, depth: int) -> Named:
    """`LAYERS["linear"]` of a dictionary that is written out, and `getattr(nn, "Linear")`."""
    if isinstance(node, ast.Subscript):
        key = file.constant(node.slice, context)
        held = file.item_of(node.value, context, key) if isinstance(key, str) else None
        if held is None or held is OPEN:
            return None
        return file.resolve(held, file.value(node.value, context)[1], depth)
    if len(node.args) != 2 or not is_name(node.func, "getattr") or file.bindings("getattr", context):
        return None
    name = file.constant(node.args[1], context)
    return (
        file.resolve(ast.Attribute(node.args[0], name, ast.Load()), context, depth) if isinstance(name, str) else None
    )


def _agreed(file: File, bindings: list[Binding], depth: int) -> Named:
    """What all the bindings of a name make of it, if it is one thing.

    The first that makes nothing of it decides: `node = node.parent` leads back to the name itself.
    """
    if len(bindings) > 1:
        bindings = _with_fallbacks(_of_one_import(bindings))
    first: Named = None
    for number, binding in enumerate(bindings if len(bindings) <= _FEW else ()):
        found = file.meaning(binding, depth)
        if found is None or (number and found != first):
            return None
        first = found
    return first


def _method(file: File, node: ast.Attribute, context: Context) -> Named:
    """`self.method`, and `super().method` in the classes of the project."""
    function = file.method_around(context)
    if function is not None and is_name(node.value, function.receiver):
        return function.cls.find(node.attr) if function.cls else None
    if function is not None and function.cls is not None and isinstance(node.value, ast.Call):
        above = function.cls.line[1:] if is_name(node.value.func, "super") else ()
        return next((base.methods[node.attr] for base in above if node.attr in base.methods), None)
    return None


def _of_class_method(file: File, binding: Binding) -> Named:
    """The class that `cls` is, in a class method of one that nothing is derived from."""
    method = file.function_around(binding.context)
    if method is None or method.cls is None or not isinstance(binding.node, ast.arg):
        return None
    told = any(is_name(each, "classmethod") for each in method.node.decorator_list)
    first = next(iter(method.parameters), "") == binding.node.arg
    cls = method.cls
    return cls if told and first and not any(cls in other.line[1:] for other in file.sites.classes) else None


def meaning_of(file: File, binding: Binding, depth: int = _DEPTH) -> Named:
    """What one binding makes of its name."""
    if binding.kind in ("def", "class"):
        return file.definitions.get(binding.node)
    if binding.kind == "param":
        return _of_class_method(file, binding)
    if binding.kind == "value" and isinstance(binding.value, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return file.resolve(binding.value, binding.context, depth - 1)
    if binding.kind == "import" and isinstance(binding.value, ast.alias):
        alias = binding.value
        found = file.sites.program.resolve(alias.name, file.name)
        if alias.asname:
            return ProjectModule(found) if found else alias.name
        top = alias.name.partition(".")[0]
        return ProjectModule(found[: len(found) - len(alias.name) + len(top)]) if found else top
    if binding.kind == "from" and isinstance(binding.value, ast.alias):
        assert isinstance(binding.node, ast.ImportFrom)
        return file.sites.imported(file, binding.node, binding.value.name, depth - 1)
    return None


def by_star(file: File, name: str, depth: int) -> Named:
    """A name that only a `from x import *` can have brought."""
    for node, source in file.stars:
        if node.level == 0 and node.module in STARRED and name not in _BUILTINS:
            return f"{node.module}.{name}"
        if source is not None and name in source.names:
            found = file.sites.imported(file, node, name, depth - 1)
            if found is not None:
                return found
    return None


def _of_one_import(bindings: list[Binding]) -> list[Binding]:
    """`import torch.nn` beside `import torch.optim`: each brings the same `torch`, and the first speaks for all."""
    plain = [each for each in bindings if isinstance(each.value, ast.alias) and not each.value.asname]
    if len(plain) < len(bindings) or any(each.kind != "import" for each in plain):
        return bindings
    return bindings[:1]


def _with_fallbacks(bindings: list[Binding]) -> list[Binding]:
    """Of several bindings, the one that counts: the import where the others stand in for it in the same `try`."""
    tried = {binding.context.node for binding in bindings if binding.context.kind == "try"}
    imports = [binding for binding in bindings if binding.kind in ("import", "from")]
    if len(tried) == 1 and imports and all(binding.context.kind == "try" for binding in bindings):
        return imports[:1]
    return bindings
