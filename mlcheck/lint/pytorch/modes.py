"""Modules and the mode they are in: train, eval, or unknown."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import lru_cache

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Mode, Place
from mlcheck.lint.interpret.conditions import truth
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ClassInfo
from mlcheck.lint.pytorch.graph_layers import is_graph_layer
from mlcheck.lint.values import Const, Object, Saved, Select, Symbol, Table, Tuple, Value, owner_key

MODULE_BASES = frozenset(
    ["torch.nn.Module", "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.jit.ScriptModule"]
)
_NAMES = frozenset(
    [
        "model",
        "net",
        "network",
        "module",
        "generator",
        "discriminator",
        "netg",
        "netd",
        "encoder",
        "decoder",
        "classifier",
    ]
)
WRAPPER = pattern(r"(?:^|_)(?:ddp|fsdp|dp|parallel|engine|compiled|wrapped|dist|distributed)(?:_|$)")
SEGMENTERS = frozenset(
    ["Unet", "UnetPlusPlus", "FPN", "PSPNet", "DeepLabV3", "DeepLabV3Plus", "Linknet", "MAnet", "PAN"]
)
"""The models of segmentation_models_pytorch whose decoders normalise by batches."""
LOADED = "loaded"
"""The mode of a network that is in eval mode because it was loaded so, and not because the program said it."""
OUTSIDE = frozenset(["parameters", "to", "cuda", "cpu", "eval", "train", "state_dict", "load_state_dict", "zero_grad"])
"""What one asks of a module without looking into it."""


def is_module(value: Value) -> bool:
    """Whether this is an instance of nn.Module for certain."""
    if not isinstance(value, Object):
        return False
    return is_module_type(value.cls) if value.cls is not None else is_module_class(value.type)


def is_module_type(info: ClassInfo) -> bool:
    """Whether a class of the project derives from nn.Module; from a library's own, where it has a `forward`."""
    return _is_of_modules(info.libraries) or info.has_foreign_forward


@lru_cache(1024)
def _is_of_modules(libraries: frozenset[str]) -> bool:
    return any(is_module_class(name) for name in libraries)


@lru_cache(1024)
def is_module_class(name: str) -> bool:
    """Whether the library class of that name is a module."""
    if name.startswith("torch.nn."):
        rest = name[len("torch.nn.") :]
        return rest[:1].isupper() and "." not in rest and rest not in ("Parameter", "ParameterList", "DataParallel")
    if name.startswith(("torchvision.models.", "timm.models.")) or is_graph_layer(name):
        return True
    if name.startswith("segmentation_models_pytorch."):
        return name.rpartition(".")[2] in SEGMENTERS
    return name.endswith(("LightningModule", ".nn.Module")) or name in MODULE_BASES


def known_as_module(m: Machine, value: Value) -> bool:
    """Whether an unknown value has been used or named as a module."""
    if not isinstance(value, Symbol):
        return False
    if m.store.get(("mode", value.key)) is not None or m.store.get(("owner", value.key)) is not None:
        return True
    return _is_named_module(value.name) and not _is_class(value)


def _is_class(value: Symbol) -> bool:
    """`chosen.Model`: what is called so in some module makes a network, and is none."""
    of_another = isinstance(value.key, tuple) and value.key[:1] == ("attr",)
    return of_another and value.name[:1].isupper() and value.name[1:2].islower()


@lru_cache(4096)
def _is_named_module(name: str) -> bool:
    return name.lower() in _NAMES or name.lower().endswith(("_model", "_net"))


def ancestors(m: Machine, key: Hashable) -> Iterator[Hashable]:
    """The module's identity and those of the modules around it."""
    seen: set[Hashable] = set()
    todo = [key]
    while todo:
        current = todo.pop()
        if current in seen or len(seen) > 32:
            continue
        seen.add(current)
        yield current
        todo.extend(m.store.get(("parents", current)) or ())
        if isinstance(current, tuple) and len(current) == 3 and current[0] in ("attr", "item"):
            todo.append(current[1])


def modes_of(m: Machine, value: Value) -> frozenset[Mode]:
    """The modes the module may be in: of the settings on it and around it, the latest.

    To be put into a new module changes nothing.
    """
    best: frozenset[Mode] = frozenset([Mode("unknown")])
    stamp = -1.0
    own = owner_key(value)
    for key in ancestors(m, own):
        found: frozenset[Mode] | None = m.store.get(("mode", key))
        latest = max((mode.stamp for mode in found), default=stamp) if found else stamp
        if found and latest > stamp and (key == own or latest != m.store.get(("born", key))):
            best, stamp = found, latest
    if stamp == m.store.get(("born", own)) and isinstance(value, Object) and _holds_evaluating(m, value):
        return frozenset([Mode("unknown")])
    return best


def _holds_evaluating(m: Machine, value: Object, depth: int = 3) -> bool:
    """Whether a part of the module, or a part of that, may have been put in eval mode by itself, or was lent."""
    for child in children(m, value) or ():
        if _is_lent(m, child):
            return True
        if isinstance(child, Object) and is_module(child):
            found = m.store.get(("mode", owner_key(child)))
            if found and any(mode.kind in ("eval", "unknown") for mode in found):
                return True
            if depth and _holds_evaluating(m, child, depth - 1):
                return True
    return False


def _is_lent(m: Machine, child: Value) -> bool:
    """`wrapper.model = predictor.model`: a network of an object that is not known, which may be in any mode."""
    if not isinstance(child, Symbol) or not isinstance(child.key, tuple) or child.key[:1] != ("attr",):
        return False
    found = m.store.get(("mode", child.key))
    return any(mode.kind != "train" for mode in found) if found else known_as_module(m, child)


def born(m: Machine, made: Object) -> None:
    """A new module is in train mode."""
    m.moded.add(made.id)
    m.made.add(made.id)
    stamp = m.stamp()
    m.store.set(("born", made.id), stamp)
    m.store.set(("mode", made.id), frozenset([Mode("train", None, m.now(), stamp)]))


def set_mode(m: Machine, owner: Value, training: Value, place: Place) -> None:
    """`owner.train(training)`."""
    key = owner_key(owner)
    if key is None:
        return
    if _is_of_collection(key):
        _blur(m)
    if isinstance(owner, Symbol) and WRAPPER.search(owner.name):
        _blur(m, handed_out=True)
    m.moded.add(key)
    stamp = m.stamp()
    if any(mode.stamp > stamp for mode in m.store.get(("mode", key)) or ()):
        return  # said in a constructor that had waited until after that
    if isinstance(training, Saved):
        saved = frozenset(Mode(mode.kind, mode.place, mode.when, stamp) for mode in training.modes)
        m.store.set(("mode", key), saved)
        return
    known, _ = truth(m, training)
    kind = "unknown" if known is None else "train" if known else "eval"
    m.store.set(("mode", key), frozenset([Mode(kind, place, m.now(), stamp)]))


def _is_of_collection(key: Hashable) -> bool:
    """`for model in models: model.eval()`, `for name, model in models.items(): ...`, `model.body` of such a one."""
    while isinstance(key, tuple) and key[0] in ("item", "attr"):
        key = key[1]
    return isinstance(key, tuple) and key[0] == "element"


def _blur(m: Machine, handed_out: bool = False) -> None:
    """A module out of a collection that is not known: it may be any of those seen under another name.

    A wrapper that is not known has inside what was `handed_out`: `engine, *_ = initialize(model)`.
    """
    for key in m.moded:
        if m.store.get(("mode", key)) is not None and (not handed_out or m.store.get(("handed out", key))):
            m.store.set(("mode", key), frozenset([Mode("unknown", None, None, m.stamp())]))


def forget(m: Machine, value: Value) -> None:
    """The mode may have been changed by code that is not known, and the module trained."""
    m.store.set(("trained at",), m.fresh())
    key = owner_key(value)
    m.store.set(("handed out", key), True)
    if m.store.get(("mode", key)) is not None or is_module(value):
        m.store.set(("mode", key), frozenset([Mode("unknown", None, None, m.stamp())]))


def adopt(m: Machine, parent: Value, child: Value) -> None:
    """A module became part of another: as attribute, or inside a list or dict of modules."""
    if isinstance(child, Select):  # whichever of the two it is, it goes the way of its parent
        adopt(m, parent, child.then)
        adopt(m, parent, child.other)
        return
    if _goes_along(m, child):
        own, key = owner_key(child), owner_key(parent)
        known = m.store.get(("parents", own)) or ()
        if key not in known and key != own:
            m.store.set(("parents", own), (*known, key))
    items = m.store.get(("items", child.id)) if isinstance(child, Object) else child
    held = items.items if isinstance(items, Tuple) else items.items.values() if isinstance(items, Table) else ()
    for item in held:
        if isinstance(item, Select) or is_module(item):
            adopt(m, parent, item)


def _goes_along(m: Machine, child: Value) -> bool:
    """Whether what is done to all of its parent's modules is done to it."""
    if isinstance(child, Object):
        return is_module(child) or m.store.get(("items", child.id)) is not None
    return isinstance(child, Symbol) and any(mode.kind == LOADED for mode in m.store.get(("mode", child.key)) or ())


def children(m: Machine, value: Object) -> list[Value] | None:
    """The values a module holds; None when there may be others."""
    if value.cls is None:
        items = m.store.get(("items", value.id))
        if isinstance(items, Tuple):
            return list(items.items) if not items.open else None
        if isinstance(items, Table):
            return list(items.items.values()) if not items.open else None
        return []
    m.ready(value)
    names = m.store.get(("attrs", value.id)) or ()
    return [m.store.get(("a", value.id, name)) for name in names]


def known_children(m: Machine, value: Object) -> list[Value]:
    """Those of the values a module holds that are known, be there others or not."""
    if value.cls is None and isinstance(items := m.store.get(("items", value.id)), Tuple):
        return list(items.items)
    return children(m, value) or []


def freeze(m: Machine, owners: frozenset[Hashable], value: Value) -> None:
    """`requires_grad_(value)` on all parameters of these modules."""
    known, _ = truth(m, value)
    for owner in owners:
        m.store.set(("frozen", owner), Const(known is False) if known is not None else Const(None))


def is_frozen(m: Machine, value: Value) -> bool:
    """Whether the module's parameters may all have been taken out of the graph."""
    found = [m.store.get(("frozen", key)) for key in ancestors(m, owner_key(value))]
    return any(isinstance(flag, Const) and flag.value is not False for flag in found)
