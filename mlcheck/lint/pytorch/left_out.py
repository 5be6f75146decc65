"""Modules that learn, and that no optimizer was given."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Hashable, Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Backward, Forward
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import walk
from mlcheck.lint.program import ClassInfo
from mlcheck.lint.pytorch import holding, modes
from mlcheck.lint.pytorch.graph_layers import has_weights
from mlcheck.lint.training import Unheld
from mlcheck.lint.values import Const, Object, Tuple, Value, owner_key

_MADE_ELSEWHERE = ("pretrained", "load(", "torchvision", "timm", "hub")
_SETS_WEIGHTS = ("load_state_dict", "requires_grad", "no_grad")
_NOT_TRAINED = ("target", "teacher", "ema", "random", "fixed", "frozen", "ref", "loss", "criterion", "attack", "old")

_LAYER = pattern(r"\bnn\.(?:Linear|Conv(?:Transpose)?[123]d|Embedding|LSTM|GRU)\(")
_CUT_OFF_OR_TIED = ("detach", ".weight = ", ".data")

_LOSSES = {"loss", "criterion"}


def unheld(m: Machine, backward: Backward) -> None:
    """Modules that got gradients in this backward, and are in no optimizer."""
    optimizers = m.store.get(("optimizers",)) or ()
    if not optimizers or not all(m.store.get(("may own", key)) for key in optimizers):
        return
    learning = [forward for forward in backward.forwards if _learns(m, forward)]
    beside = frozenset().union(*(forward.touched for forward in learning))
    for forward in learning:
        held = frozenset().union(*(m.store.get(("may own", key)) for key in optimizers))
        around = {outer for inner in forward.touched for outer in modes.ancestors(m, inner)}
        around |= holding.parts(m, forward.module)
        module, name, keys = forward.module, forward.name, frozenset(forward.touched)
        assert isinstance(module, Object)
        if held.isdisjoint(forward.touched | around):
            left = [(module, name, keys)] if _plain(m, module) else []
        else:
            left = [(part, f"{name}.{attribute}", those) for attribute, part, those in _left_out(m, forward, held)]
        family = {module.id, *holding.parts(m, module)}
        if _may_be_in_one_of(m, held, forward.touched | around) or _is_beside(m, held, family):
            continue
        loop = m.loops[-1] if m.loops else None
        for part, called, those in left[:1]:
            assert part.place is not None
            m.facts.training.unheld.append(Unheld(part.place, called, those, optimizers, loop, beside))


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
        family = frozenset({*modes.ancestors(m, owner_key(part)), *holding.parts(m, part)})
        meant = any(word in name.lower() for word in _NOT_TRAINED) or modes.is_frozen(m, part)
        loaded = any(m.store.get((how, key)) for key in family for how in ("restored", "copied"))
        new = plain or _plain(m, part)
        if (
            new
            and held.isdisjoint(family)
            and holding.has_parameters(m, part)
            and not (meant or loaded or _is_set(m, name))
        ):
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


def _is_beside(m: Machine, held: Collection[Hashable], family: set[Hashable]) -> bool:
    """Whether both are in one list, `models[-1]` and `models[0]`: which turn has which, nobody followed."""
    foreign = any(m.store.get(("born", key)) is None for key in held)
    for items in m.store.all("items"):
        kept = items.items if isinstance(items, Tuple) else ()
        row = {owner_key(each) for item in kept for each in holding.either(item)}
        if not family.isdisjoint(row) and (foreign or not row.isdisjoint(held)):
            return True
    return False


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
    if not set(named) <= (_LOSSES if holding.has_own_parameter(m, module) else set()) or {
        mode.kind for mode in forward.modes
    } != {"train"}:
        return False
    if m.store.get(("copied", module.id)):
        return False
    return holding.has_parameters(m, module) or (module.cls is not None and _makes_layers(m, module, module.cls))


def _makes_layers(m: Machine, module: Object, cls: ClassInfo) -> bool:
    """Whether it makes layers with weights of its own, be it in loops that nobody counts: `layers += [Conv2d(...)]`.

    Not where it makes them under a switch that is off: `if self.learnable: ...`.
    """
    for info in cls.mro:
        text = info.module.text_of(info.node)
        for node in walk(info.node) if _LAYER.search(text) else ():
            if isinstance(node, ast.If) and isinstance(node.test, ast.Attribute):
                switch = m.store.get(("a", module.id, node.test.attr))
                for line in node.body if isinstance(switch, Const) and not switch.value else ():
                    text = text.replace(info.module.text_of(line), "")
        if _LAYER.search(text):
            return True
    return False


def _plain(m: Machine, module: Value, depth: int = 6) -> bool:
    """Whether the module and all inside it are made here of PyTorch's layers, with new weights."""
    if not isinstance(module, Object) or depth == 0:
        return not isinstance(module, Object)
    if module.cls is None:
        if modes.is_module(module) and not module.type.startswith("torch.nn.") and not has_weights(module.type):
            return False
    elif "?" in module.cls.libraries or _speaks_of(module.cls, (*_MADE_ELSEWHERE, *_SETS_WEIGHTS)):
        return False
    return all(_plain(m, child, depth - 1) for child in holding.inside(m, module))


def _speaks_of(cls: ClassInfo, words: tuple[str, ...]) -> bool:
    return any(word in info.module.text_of(info.node) for info in cls.mro for word in words)
