"""The names under which a file holds modules, as far as its text tells."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.lint.nodes import last_name

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File

_PROPERTIES = frozenset(["property", "cached_property"])


def module_names(file: File) -> frozenset[str]:
    """The names of what a file treats as modules: `net` in `self.net.eval()`."""
    found = set()
    for name in ("eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict"):
        for call, _ in file.walk.calls.get(name, ()):
            if isinstance(call.func, ast.Attribute):
                found.add(last_name(call.func.value))
    if "load_state_dict" in file.walk.calls:
        found |= _loaded(file)
    if not file.walk.calls.keys().isdisjoint(("no_grad", "inference_mode")):
        found |= _made(file)
    return frozenset(found - {"", "self"})


def _loaded(file: File) -> set[str]:
    """What a file's own functions make, where weights are loaded: `model` in `model = load_model("best.pt")`.

    And what its properties give.
    """
    loading = {each.node.name for each in file.walk.defined if not isinstance(each.node, ast.ClassDef)}
    held = [(a.target.attr, a.value) for a in file.walk.attributes]
    held += [(name, b.value) for name, all_ in file.walk.module.scope.bindings.items() for b in all_]  # type: ignore[misc]
    given = {
        each.node.name
        for each in file.walk.defined
        if not _PROPERTIES.isdisjoint(map(last_name, each.node.decorator_list))
    }
    return given | {
        name
        for name, value in held
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in loading
    }


def _made(file: File) -> set[str]:
    """The variables that hold a network of torchvision: `backbone` in `backbone = resnet50(weights="DEFAULT")`."""
    scopes = [file.walk.module.scope, *(each.inner.scope for each in file.walk.defined)]
    return {
        name
        for scope in scopes
        for name, bindings in scope.bindings.items()
        for binding in bindings
        if file.called(binding.value, binding.context).startswith("torchvision.models.")
    }
