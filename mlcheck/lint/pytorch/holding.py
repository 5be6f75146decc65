"""Which parameters the optimizers hold, which are frozen, and which got away."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Hashable, Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Backward, Forward
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ClassInfo
from mlcheck.lint.pytorch import modes
from mlcheck.lint.pytorch.graph_layers import has_weights
from mlcheck.lint.training import Replaced, Unheld
from mlcheck.lint.values import Const, Object, Params, Select, Table, Tuple, Value, owner_key

_PARAMETERS: tuple[str, ...] = (
    "Linear",
    "Conv",
    "Lazy",
    "Bilinear",
    "Embedding",
    "BatchNorm",
    "LayerNorm",
    "GroupNorm",
)
_PARAMETERS += ("LSTM", "GRU", "RNN", "Transformer", "MultiheadAttention", "PReLU")
_MADE_ELSEWHERE = ("pretrained", "load(", "torchvision", "timm", "hub")
_SETS_WEIGHTS = ("load_state_dict", "requires_grad", "no_grad")
_NOT_TRAINED = ("target", "teacher", "ema", "random", "fixed", "frozen", "ref", "loss", "criterion", "attack", "old")

_LAYER = pattern(r"\bnn\.(?:Linear|Conv(?:Transpose)?[123]d|Embedding|LSTM|GRU)\(")
_CUT_OFF_OR_TIED = ("detach", ".weight = ", ".data")

_LOSSES = {"loss", "criterion"}


def noted(m: Machine, owner: Value) -> None:
    """An object is given an attribute: one with a `__setattr__` of its own may note it in the tables that it keeps."""
    if not isinstance(owner, Object) or owner.cls is None or owner.cls.find("__setattr__") is None:
        return
    for name in m.store.get(("attrs", owner.id)) or ():
        kept = m.store.get(("a", owner.id, name))
        table = m.store.get(("items", kept.id)) if isinstance(kept, Object) else None
        if isinstance(kept, Object) and isinstance(table, Table) and not table.open:
            m.store.set(("items", kept.id), Table(table.items, True))


def has_parameters(m: Machine, module: Value, besides: frozenset[Hashable] = frozenset(), depth: int = 6) -> bool:
    """Whether the module, or one inside it, has parameters of its own and is no part of the modules `besides`."""
    if not isinstance(module, Object) or not modes.is_module(module) or depth == 0:
        return False
    if module.cls is None and (module.type.rpartition(".")[2].startswith(_PARAMETERS) or has_weights(module.type)):
        return besides.isdisjoint(modes.ancestors(m, module.id))
    if has_own_parameter(m, module):
        return besides.isdisjoint(modes.ancestors(m, module.id))
    return any(has_parameters(m, child, besides, depth - 1) for child in _inside(m, module))


def has_own_parameter(m: Machine, module: Object) -> bool:
    """Whether a class of the project keeps a parameter of its own, apart from its layers: it is there to be trained."""
    return module.cls is not None and any(map(_is_parameter, _inside(m, module)))


def _is_parameter(value: Value) -> bool:
    """`nn.Parameter(...)` that is to be trained."""
    if not isinstance(value, Object) or value.type != "torch.nn.Parameter":
        return False
    return len(value.args) < 2 and "requires_grad" not in value.kwargs


def _inside(m: Machine, module: Object) -> list[Value]:
    """What a module holds; of what a condition chooses, either."""
    found: list[Value] = []
    todo = modes.known_children(m, module)
    while todo:
        child = todo.pop(0)
        if isinstance(child, Select):
            todo[:0] = [child.then, child.other]
            continue
        items = m.store.get(("items", child.id)) if isinstance(child, Object) and not modes.is_module(child) else None
        found.extend(items.items if isinstance(items, Tuple) else [child])
    return found


def _parts(m: Machine, module: Value, depth: int = 6) -> set[Hashable]:
    """The module's own modules, at whatever depth: its parameters are theirs, be its call followed into them or not."""
    if not isinstance(module, Object) or depth == 0:
        return set()
    found: set[Hashable] = set()
    for child in _inside(m, module):
        found |= {owner_key(child)} | _parts(m, child, depth - 1)
    return found


def owners_of(m: Machine, value: Value) -> frozenset[Hashable]:
    """The modules whose parameters an optimizer holds; empty when unknown."""
    if not isinstance(value, Object):
        return frozenset()
    given = value.args[0] if value.args else value.kwargs.get("params")
    groups = containers.contents(m, given) if given is not None else None
    parts = list(groups.items) if groups is not None and not isinstance(groups, Table) else [given or Const(None)]
    found: set[Hashable] = set()
    for part in parts:
        table = containers.table(m, part)
        merged = containers.merged_params(m, [table.items.get("params", Const(None)) if table else part])
        if not isinstance(merged, Params) or not merged.owners:
            return frozenset()
        found |= merged.owners
    return frozenset(found)


def possible_owners(m: Machine, optimizer: Value) -> frozenset[Hashable]:
    """The modules whose parameters it may hold, where this path leaves it open which is chosen; empty when unknown."""
    if not isinstance(optimizer, Object):
        return frozenset()
    given = optimizer.args[0] if optimizer.args else optimizer.kwargs.get("params")
    todo: list[Value | None] = [given]
    found: set[Hashable] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Select):
            known = m.assumed(value.key)
            todo += [side for side, holds in ((value.then, True), (value.other, False)) if known in (None, holds)]
        elif isinstance(value, Params) and value.owners:
            found |= value.owners
        else:
            return frozenset()
    return frozenset(found)


def put_among(m: Machine, owner: Value, value: Value, node: ast.AST) -> None:
    """`self.heads.append(value)`, `self.heads[name] = value`: the same of a list or dictionary of modules."""
    name = m.store.get(("name", owner.id)) if isinstance(owner, Object) else None
    put(m, owner, name or "it", value, None, node)
    whole = frozenset(modes.ancestors(m, owner_key(owner)))
    for replaced in m.facts.training.replaced[-1:]:
        if isinstance(value, Object) and replaced.key == value.id:
            replaced.whole = whole


def put(m: Machine, owner: Value, name: str, value: Value, before: Value | None, node: ast.AST) -> None:
    """`owner.name = value`: parameters that come after the optimizer are not in it."""
    optimizers = m.store.get(("optimizers",)) or ()
    if not optimizers or m.moment is not None or not isinstance(value, Object) or not modes.is_module(value):
        return
    around = set(modes.ancestors(m, owner_key(owner)))
    if isinstance(before, Object):
        around.add(before.id)
    for key in optimizers:
        made = m.facts.training.optimizers.get(key)
        if made is None or made.owners.isdisjoint(around) or not isinstance(key, int) or value.id < key:
            continue
        if has_parameters(m, value, made.owners):
            m.facts.training.replaced.append(Replaced(m.place(node), name, value.id, made, owner_key(owner)))


def unheld(m: Machine, backward: Backward) -> None:
    """Modules that got gradients in this backward, and are in no optimizer."""
    optimizers = m.store.get(("optimizers",)) or ()
    if not optimizers or not all(m.store.get(("may own", key)) for key in optimizers):
        return
    for forward in backward.forwards:
        if not _learns(m, forward):
            continue
        held = frozenset().union(*(m.store.get(("may own", key)) for key in optimizers))
        around = {outer for inner in forward.touched for outer in modes.ancestors(m, inner)}
        around |= _parts(m, forward.module)
        module, name, keys = forward.module, forward.name, frozenset(forward.touched)
        assert isinstance(module, Object)
        if held.isdisjoint(forward.touched | around):
            left = [(module, name, keys)] if _plain(m, module) else []
        else:
            left = [(part, f"{name}.{attribute}", those) for attribute, part, those in _left_out(m, forward, held)]
        if _may_be_in_one_of(m, held, forward.touched | around):
            continue
        loop = m.loops[-1] if m.loops else None
        for part, called, those in left[:1]:
            assert part.place is not None
            m.facts.training.unheld.append(Unheld(part.place, called, those, optimizers, loop))


def _left_out(
    m: Machine, forward: Forward, held: frozenset[Hashable]
) -> Iterator[tuple[str, Object, frozenset[Hashable]]]:
    """The layers that a model called, and that no optimizer holds, though it holds others of that model."""
    module = forward.module
    if not isinstance(module, Object) or module.cls is None or not held.isdisjoint(modes.ancestors(m, module.id)):
        return
    if _speaks_of(module.cls, _CUT_OFF_OR_TIED):
        return
    plain = _plain(m, module)
    if not plain and ("?" in module.cls.libraries or _speaks_of(module.cls, _SETS_WEIGHTS)):
        return
    for name in m.store.get(("attrs", module.id)) or ():
        part = m.store.get(("a", module.id, name))
        if not isinstance(part, Object) or part.place is None or owner_key(part) not in forward.touched:
            continue
        family = frozenset({*modes.ancestors(m, owner_key(part)), *_parts(m, part)})
        meant = any(word in name.lower() for word in _NOT_TRAINED) or modes.is_frozen(m, part)
        loaded = any(m.store.get((how, key)) for key in family for how in ("restored", "copied"))
        new = plain or _plain(m, part)
        if new and held.isdisjoint(family) and has_parameters(m, part) and not (meant or loaded or _is_set(m, name)):
            yield name, part, family


def _is_set(m: Machine, name: str) -> bool:
    """Whether the code beside the training speaks of the layer's weights: `model.embed.weight.data.copy_(vectors)`."""
    spoken = rf"\.{re.escape(name)}\b[\w.\[\]]*\.(?:data|load|requires_grad|from_pretrained|weight\b(?!\)))"
    return re.search(spoken, m.frame.module.source.text) is not None


def _may_be_in_one_of(m: Machine, held: Collection[Hashable], module: Collection[Hashable]) -> bool:
    """Whether what an optimizer holds came out of code that is not known, and that got the module: `wrap(model)`.

    Or it is a list of modules, `nn.ModuleList(found)`, and what is in it is not known.
    """
    lists = (m.store.get(("items", key)) for key in held)
    if any(isinstance(each, Tuple) and each.open and not each.items for each in lists):
        return True
    foreign = any(m.store.get(("born", key)) is None for key in held)
    return foreign and any(m.store.get(("handed out", key)) for key in module)


def _learns(m: Machine, forward: Forward) -> bool:
    """Whether the module was made to be trained, and nothing else moves or freezes its weights."""
    module = forward.module
    if not isinstance(module, Object) or module.place is None or forward.frozen:
        return False
    if forward.restored and any(mode.place is None for mode in forward.modes):
        return False  # nobody says `model.train()` of what was loaded to be asked only
    if forward.grad.kind != "on" and forward.grad.kind != "unknown":
        return False
    named = [word for word in _NOT_TRAINED if word in forward.name.lower()]
    if not set(named) <= (_LOSSES if has_own_parameter(m, module) else set()) or {
        mode.kind for mode in forward.modes
    } != {"train"}:
        return False
    if m.store.get(("copied", module.id)):
        return False
    return has_parameters(m, module) or (module.cls is not None and _makes_layers(module.cls))


def _makes_layers(cls: ClassInfo) -> bool:
    """Whether it makes layers with weights of its own, be it in loops that nobody counts: `layers += [Conv2d(...)]`."""
    return any(_LAYER.search(info.module.text_of(info.node)) for info in cls.mro)


def _plain(m: Machine, module: Value, depth: int = 6) -> bool:
    """Whether the module and all inside it are made here of PyTorch's layers, with new weights."""
    if not isinstance(module, Object) or depth == 0:
        return not isinstance(module, Object)
    if module.cls is None:
        if modes.is_module(module) and not module.type.startswith("torch.nn.") and not has_weights(module.type):
            return False
    elif "?" in module.cls.libraries or _speaks_of(module.cls, (*_MADE_ELSEWHERE, *_SETS_WEIGHTS)):
        return False
    return all(_plain(m, child, depth - 1) for child in _inside(m, module))


def _speaks_of(cls: ClassInfo, words: tuple[str, ...]) -> bool:
    return any(word in info.module.text_of(info.node) for info in cls.mro for word in words)


def walked(m: Machine, params: Params) -> None:
    """A loop goes through the parameters one by one: what it does with them is not known."""
    if m.loops and not isinstance(m.loops[-1].node, ast.For):
        return
    m.facts.training.walked |= params.owners
