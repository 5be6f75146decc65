"""Held-out loaders over the very part of a public data set that the model is trained on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_length, is_name, walk
from mlcheck.lint.sites.data.loaders import PUBLIC, Loader, classes_of, loaders
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.values import split_of_name

Part = tuple[tuple[str, str], bool]

_BY_FLAG = frozenset(["MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "USPS"])
_BY_WORD = frozenset(["SVHN", "STL10", "GTSRB", "Food101", "Flowers102", "StanfordCars", "DTD", "FGVCAircraft"])
_ASKED = frozenset(["classes", "class_to_idx"])
_WORDS = ("split", "mode", "phase", "subset", "partition", "image_set", "stage", "set_type", "set")
_FLAGS = ("train", "is_train", "training")
_PREPARED = pattern(r"transform|augment|jitter|flip|noise", re.IGNORECASE)


def held_out_of_training(sites: Sites) -> Iterator[tuple[Loader, Loader]]:
    """`DataLoader(MNIST(root, train=True))` named for validation or test, and the one beside it for training."""
    found = [(loader, parts) for loader in sites.once(loaders) if (parts := _parts(loader))]
    for held, parts in found:
        if _split(held) not in ("val", "test") or _is_cut(held):
            continue
        judged = {part for part, trains in parts if trains and (part, False) not in parts}
        for learnt, others in found:
            beside = learnt.call.file is held.call.file and learnt.call.function is held.call.function
            trained = {part for part, trains in others if trains}
            for_training = _split(learnt) == "train" or (learnt.trained and _split(learnt) == "")
            same = len(parts) == len(held.data) and judged & trained and _is_whole(held, learnt)
            if beside and same and for_training:
                yield held, learnt
                break


def trained_on_held_out_part(sites: Sites) -> Iterator[tuple[Loader, Loader]]:
    """`train_loader` over `Scenes(root, split="val")`, and the `val_loader` beside it over the very same."""
    found = [(loader, parts) for loader in sites.once(loaders) if (parts := _parts(loader))]
    for learnt, parts in found:
        if _split(learnt) != "train" or learnt.owns_order or _is_cut(learnt) or any(trains for _, trains in parts):
            continue
        for held, others in found:
            beside = learnt.call.file is held.call.file and learnt.call.function is held.call.function
            same = len(parts) == len(learnt.data) == len(held.data) and parts == others
            named = learnt.names and held.names and _split(held) in ("val", "test")
            if beside and same and named and not held.owns_order and not _is_cut(held):
                yield learnt, held
                break


def _split(loader: Loader) -> str:
    """What its own names say, or that of its data, where these do not contradict each other."""
    data = split_of_name(loader.dataset.id) if isinstance(loader.dataset, ast.Name) else ""
    own = loader.own_split if loader.names else ""
    return (own or data) if data in ("", own) or not own else ""


def _parts(loader: Loader) -> set[Part]:
    """The classes of the data with their folder, of each data set that it may be, and whether it is for training."""
    found = set()
    for origin in loader.data:
        if (part := _own_part(origin) or _asked_part(origin)) is not None:
            found.add(part)
            continue
        names = [name.removeprefix(PUBLIC) for name in classes_of(origin)]
        if not names or not (_BY_FLAG.issuperset(names) or _BY_WORD.issuperset(names)):
            continue
        assert isinstance(origin.node, ast.Call)
        made = Call(origin.file, origin.node, origin.context)
        root = made.argument("root", 0)
        if not isinstance(root, ast.expr):
            continue
        trains = made.constant("train", 1, True) is True if names[0] in _BY_FLAG else _asks_for_training(made)
        found.add((("|".join(sorted(names)), ast.unparse(root)), trains))
    return found


def _own_part(origin: Origin) -> Part | None:
    """What a class of the project is asked for: which part, and of what, whatever is done to the samples."""
    if not isinstance(origin.node, ast.Call):
        return None
    made = Call(origin.file, origin.node, origin.context)
    cls = origin.file.resolve(origin.node.func, origin.context)
    init = cls.find("__init__") if isinstance(cls, Class) else None
    if init is None or not all(made.names()) or any(isinstance(arg, ast.Starred) for arg in origin.node.args):
        return None
    names = [name for name in init.parameters if name != init.receiver]
    part = next((name for name in (*_WORDS, *_FLAGS) if name in names), "")
    if not part:
        return None
    given = {name: made.argument(name, position) for position, name in enumerate(names)}
    asked = made.constant(part, names.index(part))
    if given[part] is None:
        default = init.parameters[part]
        asked = default.value if isinstance(default, ast.Constant) else None
    if not isinstance(asked, str | bool) or not _is_settled(made):
        return None
    of = "|".join(
        f"{name}={ast.unparse(value)}"
        for name, value in sorted(given.items())
        if isinstance(value, ast.expr) and name != part and not _PREPARED.search(name)
    )
    trains = asked is True if part in _FLAGS else isinstance(asked, str) and split_of_name(asked) == "train"
    return (f"{cls.name}:{asked}", of), trains  # type: ignore[union-attr]


def _asked_part(origin: Origin) -> Part | None:
    """What something that is not known is asked for by name: `make(train=True)`, where `make = getattr(sets, name)`."""
    match origin.node:
        case ast.Call(func=ast.Name(id=maker), args=given, keywords=words) if not origin.name:
            asked = {word.arg: word.value for word in words if word.arg in (*_WORDS, *_FLAGS)}
        case _:
            return None
    made = Call(origin.file, origin.node, origin.context)
    part, value = asked.popitem() if len(asked) == 1 else ("", None)
    told = value.value if isinstance(value, ast.Constant) else None
    settled = len(origin.file.bindings(maker, origin.context)) < 2 and all(made.names()) and _is_settled(made)
    if not isinstance(told, str | bool) or not settled or any(isinstance(each, ast.Starred) for each in given):
        return None
    rest = [word for word in words if word.arg != part and not _PREPARED.search(word.arg or "")]
    of = "|".join(ast.unparse(each) for each in (*given, *sorted(rest, key=lambda word: word.arg or "")))
    trains = told is True if part in _FLAGS else isinstance(told, str) and split_of_name(told) == "train"
    return (f"{maker}:{told}", of), trains


def _is_settled(made: Call) -> bool:
    """Whether the same words mean the same wherever they stand: no variable that is given is bound twice."""
    values = [*made.node.args, *(keyword.value for keyword in made.node.keywords)]
    names = {node.id for value in values for node in walk(value) if isinstance(node, ast.Name)}
    return all(len(made.file.bindings(name, made.context)) < 2 for name in names)


def _asks_for_training(made: Call) -> bool:
    return made.constant("split", 1, "train") == "train"


def _is_whole(held: Loader, learnt: Loader) -> bool:
    """Whether no sampler takes a part: there is none in the `**options` of a loader beside it that shuffles."""
    if not held.owns_order:
        return True
    told = held.call.node.args[3:] or any(word.arg in ("sampler", "batch_sampler") for word in held.call.node.keywords)
    options = [
        [ast.unparse(word.value) for word in loader.call.node.keywords if word.arg is None] for loader in (held, learnt)
    ]
    return not told and options[0] == options[1] and learnt.call.constant("shuffle", 2) is True


def _is_cut(loader: Loader) -> bool:
    """Whether anything but loaders may use the data set: to take a part of it, or to change what it holds."""
    data = loader.dataset
    if isinstance(data, ast.Attribute):
        return _is_used_elsewhere(loader, data)
    if not isinstance(data, ast.Name):
        return not isinstance(data, ast.Call)
    nodes = walk(around(loader.call))
    plain = {part for node in nodes if is_length(node) for part in walk(node)}
    plain |= {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in _ASKED}
    plain |= {other.dataset for other in loader.call.file.sites.once(loaders) if other.dataset is not None}
    uses = [node for node in nodes if is_name(node, data.id)]
    return any(isinstance(node.ctx, ast.Load) and node not in plain for node in uses)


def _is_used_elsewhere(loader: Loader, data: ast.Attribute) -> bool:
    """Whether anything but loaders may read `self.val_set`, anywhere."""
    read = re.compile(rf"\.{data.attr}\b(?! *=[^=])|['\"]{data.attr}['\"]")
    sites = loader.call.file.sites
    texts = [file.text for file in sites.mentioning([data.attr], tests=True)]
    given = [other.dataset for other in sites.once(loaders)]
    told = sum(isinstance(each, ast.Attribute) and each.attr == data.attr for each in given)
    return sum(len(read.findall(text)) for text in texts) > told
