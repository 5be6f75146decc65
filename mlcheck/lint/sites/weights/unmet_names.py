"""Weights that are loaded without `strict`, and of which no name is one of the model's: none of them is taken."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import MODULE
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.objects import class_of_object
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.weights.prefixes import saved_model

_OF_TORCHVISION = {
    pattern(r"torchvision\.models\.(?:resnet\.)?(?:resnet|resnext|wide_resnet)\d+\w*"): frozenset(
        ["conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"]
    ),
    pattern(r"torchvision\.models\.(?:vgg|densenet|mobilenet|efficientnet|alexnet|squeezenet)\w*"): frozenset(
        ["features", "classifier"]
    ),
}
_BY_OTHER_WAYS = pattern(r"add_module|setattr|register_module|__dict__|_modules|state_dict")
_MOVES = ("cuda", "to", "cpu", "train", "eval", "float", "half")
_DEPTH = 6


class Unmet(NamedTuple):
    """The call that loads, where the weights were saved, and the names that those and the model begin with."""

    load: Call
    saved: Origin
    has: str
    wants: str


def unmet_names(sites: Sites) -> Iterator[Unmet]:
    """`resnet.load_state_dict(torch.load("ssl.pt"), strict=False)` of a model that keeps its network in `encoder`."""
    for file in sites.mentioning(["strict"]):
        for call in file.calls("load_state_dict"):
            given, owner = call.argument("state_dict", 0), call.owner
            loose = call.constant("strict", 1, True) is False
            saved = saved_model(file, given, call.context) if loose and isinstance(given, ast.expr) else None
            if saved is None or owner is None:
                continue
            has = _parts(saved[1].file, saved[1].node, saved[1].context)
            wants = _parts(file, owner, call.context)
            if has and wants and has.isdisjoint(wants):
                yield Unmet(call, saved[0], min(has), min(wants))


def _parts(file: File, node: ast.expr, context: Context) -> frozenset[str]:
    """The names that all weights of a model may begin with; none where they are not known."""
    made, where = source(file, before_methods(node, _MOVES), context)
    made = before_methods(made, _MOVES)
    name = file.called(made, where)
    for models, parts in _OF_TORCHVISION.items():
        if models.fullmatch(name):
            return parts
    cls = class_of_object(file, made, where, _DEPTH)
    if cls is None or cls.libraries != {MODULE} or any(_BY_OTHER_WAYS.search(each.text) for each in cls.line):
        return frozenset()
    return frozenset(name for each in cls.line for name in each.attributes)
