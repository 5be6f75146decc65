"""Layers that a forward pass calls, and whose result it never reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_name, reads_of
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_ACTIVATIONS = ("ReLU", "LeakyReLU", "GELU", "SiLU", "ELU", "PReLU", "Tanh", "Sigmoid", "Softmax", "Softplus")
_OTHERS = ("Linear", "Dropout", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "LayerNorm", "GroupNorm", "MaxPool2d")
_NAMES = tuple(f"torch.nn.{name}" for name in (*_ACTIVATIONS, *_OTHERS))


def unread_results(sites: Sites) -> Iterator[tuple[Function, ast.Call, str]]:
    """`activated = self.relu(normed)`, where what follows goes on with `normed`."""
    for cls in sites.once(module_classes):
        forward = cls.methods.get("forward")
        if forward is None or "locals()" in forward.text:
            continue
        for line in forward.all(ast.Assign):
            match line:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[given]) as call):
                    if name.startswith("_") or reads_of(forward.nodes, name) or not _is_plain(forward, call):
                        continue
                    if isinstance(given, ast.Name) and _is_read_after(forward, given.id, line):
                        yield forward, call, name


def _is_plain(forward: Function, call: ast.Call) -> bool:
    """Whether it calls a layer that does nothing but compute its result."""
    name = own_attribute(call.func, forward)
    sets = forward.cls.attribute(name) if forward.cls is not None and name else []
    if len(sets) != 1 or not isinstance(sets[0][1].value, ast.Call):
        return False
    where, made = sets[0][0], sets[0][1].value
    in_place = any(word.arg in ("inplace", None) for word in made.keywords) or any(
        isinstance(arg, ast.Constant) and arg.value is True for arg in made.args
    )
    return where.file.called(made, sets[0][1].context) in _NAMES and not in_place


def _is_read_after(forward: Function, name: str, line: ast.Assign) -> bool:
    """Whether what the layer was given is read further on, as if it were the result."""
    later = (node for node in forward.nodes if getattr(node, "lineno", 0) > (line.end_lineno or 0))
    return any(is_name(node, name) and isinstance(node.ctx, ast.Load) for node in later)
