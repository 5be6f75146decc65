"""Softmaxes that are layers: `self.attend(scores)`, where `self.attend = nn.Softmax(dim=1)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call

_LAYERS = ("torch.nn.Softmax",)
LOG_LAYERS = (*_LAYERS, "torch.nn.LogSoftmax")


def softmax_layer(call: Call, kinds: tuple[str, ...] = _LAYERS) -> Call | None:
    """`nn.Softmax(dim=0)` of `self.attend(scores)`, where that is all that `self.attend` ever is."""
    name = own_attribute(call.node.func, call.function)
    sets = call.cls.attribute(name) if name and call.cls is not None else []
    if len(sets) != 1 or not isinstance(sets[0][1].value, ast.Call) or len(call.node.args) != 1:
        return None
    (method, assigned), made = sets[0], sets[0][1].value
    named = method.file.called(made, assigned.context)
    return Call(method.file, made, assigned.context, named) if named in kinds else None


def softmax_layer_calls(file: File, kinds: tuple[str, ...] = _LAYERS) -> Iterator[Call]:
    """All calls of such layers, each in the class that keeps the layer."""
    for made in file.calls(*(kind.rpartition(".")[2] for kind in kinds)):
        for name in file.names_given(made.node) if made.cls is not None else ():
            for call in file.calls(name):
                if call.cls is made.cls and (layer := softmax_layer(call, kinds)) is not None:
                    if layer.node is made.node:
                        yield call
