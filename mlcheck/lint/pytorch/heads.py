"""The networks of torchvision whose last layer the program replaced: `net.fc = nn.Linear(512, 10)`."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.dataclasses import replace
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import Object, Symbol, Tensor, Value

_LAST: dict[tuple[str, ...], tuple[str, tuple[str | int, ...]]] = {
    ("resnet", "resnext", "wide_resnet", "regnet", "shufflenet"): ("fc", ()),
    ("densenet", "maxvit"): ("classifier", ()),
    ("vgg", "alexnet"): ("classifier", (6, -1)),
    ("mobilenet_v2", "mnasnet", "efficientnet"): ("classifier", (1, -1)),
    ("mobilenet_v3",): ("classifier", (3, -1)),
    ("convnext",): ("classifier", (2, -1)),
    ("swin",): ("head", ()),
    ("vit_",): ("heads", ("head", 0, -1)),
}
"""Where the last layer of a family is: an attribute, and where that is a sequence, its last item by all its names."""

_ADDS = ("append", "add_module", "register_module", "extend", "insert", "pop")


def begun(m: Machine, network: Value) -> Value:
    """A network as the library makes it. Its last layer is put on record: a branch may replace it, and another not."""
    name, items = _last_of(network.type) if isinstance(network, Object) else ("", ())
    if isinstance(network, Object) and name:
        part = Symbol(("attr", network.id, name), name)
        m.store.set(("a", network.id, name), part)
        for cell, layer in _layers(part, items):
            m.store.set(("a", part.key, cell), layer)
    return network


def added(m: Machine, layers: Symbol, method: str) -> None:
    """`net.classifier.append(...)`: what comes last then is not known."""
    if method in _ADDS and isinstance(layers.key, tuple) and layers.key[:1] == ("attr",):
        m.store.set(("added", layers.key), True)


def after_backbone(m: Machine, network: Object, features: Symbol, node: ast.AST) -> Value:
    """What the new last layer makes of the features; they themselves where it was not replaced on every path."""
    head = _replaced(m, network)
    if head is None:
        return features
    made = m.call(head, [features], {}, node)
    if not isinstance(made, Tensor):
        return features
    if head.cls is None and not head.type.endswith("Sequential"):
        return replace(made, place=head.place or made.place)
    return made


def _replaced(m: Machine, network: Object) -> Object | None:
    """The layer the program put in the place of the last one."""
    name, items = _last_of(network.type)
    last = m.store.get(("a", network.id, name))
    if isinstance(last, Symbol) and last.key == ("attr", network.id, name) and m.store.get(("added", last.key)) is None:
        held = [m.store.get(("a", last.key, cell)) for cell, _ in _layers(last, items)]
        changed = [layer for layer in held if not isinstance(layer, Symbol)]
        last = changed[0] if len(changed) == 1 else None
    return last if isinstance(last, Object) else None


def _layers(part: Symbol, items: tuple[str | int, ...]) -> Iterator[tuple[Hashable, Symbol]]:
    """Each name of the last layer: where what is set by it is kept, and what it stands for until then."""
    for item in items:
        if isinstance(item, str):
            yield item, Symbol(("attr", part.key, item), item)
        else:
            yield ("item", item), Symbol(("item", part.key, item))


def _last_of(network: str) -> tuple[str, tuple[str | int, ...]]:
    """`fc` for "torchvision.models.resnet18"; nothing for a detector, which does not return what one layer makes."""
    home, _, name = network.rpartition(".")
    family = home.removeprefix("torchvision.models").removeprefix(".")
    if not home.startswith("torchvision.models") or (family and not name.startswith(family)):
        return "", ()
    return next((last for families, last in _LAST.items() if name.startswith(families)), ("", ()))
