"""Held-out loaders over the very part of a public data set that the model is trained on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_length, walk
from mlcheck.lint.sites.loaders import Loader, loaders
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.optimizers import around
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_HOME = "torchvision.datasets."
_BY_FLAG = frozenset(["MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "USPS"])
_BY_WORD = frozenset(["SVHN", "STL10", "GTSRB", "Food101", "Flowers102", "StanfordCars", "DTD", "FGVCAircraft"])
_ASKED = frozenset(["classes", "class_to_idx"])


def held_out_of_training(sites: Sites) -> Iterator[tuple[Loader, Loader]]:
    """`DataLoader(MNIST(root, train=True))` named for validation or test, and the one beside it for training."""
    found = [(loader, part) for loader in sites.once(loaders) if (part := _part(loader)) is not None]
    for held, part in found:
        if _split(held) not in ("val", "test") or held.owns_order or _is_cut(held):
            continue
        for learnt, other in found:
            beside = learnt.call.file is held.call.file and learnt.call.function is held.call.function
            if beside and part == other and _split(learnt) == "train":
                yield held, learnt
                break


def _split(loader: Loader) -> str:
    """What its own names say, where the name of its data does not say another thing."""
    data = split_of_name(loader.dataset.id) if isinstance(loader.dataset, ast.Name) else ""
    return loader.own_split if loader.names and data in ("", loader.own_split) else ""


def _part(loader: Loader) -> tuple[str, str] | None:
    """The class of the data with its folder, where the loader gets its training part."""
    if len(loader.data) != 1 or not loader.data[0].name.startswith(_HOME):
        return None
    origin = loader.data[0]
    assert isinstance(origin.node, ast.Call)
    made, name = Call(origin.file, origin.node, origin.context), origin.name.removeprefix(_HOME)
    trains = made.constant("train", 1, True) is True if name in _BY_FLAG else name in _BY_WORD
    if not trains or (name in _BY_WORD and made.constant("split", 1, "train") != "train"):
        return None
    root = made.argument("root", 0)
    return (name, ast.unparse(root)) if isinstance(root, ast.expr) else None


def _is_cut(loader: Loader) -> bool:
    """Whether anything but loaders may use the data set: to take a part of it, or to change what it holds."""
    data = loader.dataset
    if not isinstance(data, ast.Name):
        return not isinstance(data, ast.Call)
    nodes = walk(around(loader.call))
    plain = {part for node in nodes if is_length(node) for part in walk(node)}
    plain |= {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in _ASKED}
    plain |= {other.dataset for other in loader.call.file.sites.once(loaders) if other.dataset is not None}
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == data.id]
    return any(isinstance(node.ctx, ast.Load) and node not in plain for node in uses)
