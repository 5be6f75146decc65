"""Which parameters the optimizers hold, which are frozen, and which got away."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterator

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import is_name
from mlcheck.lint.pytorch import modes
from mlcheck.lint.pytorch.graph_layers import has_weights
from mlcheck.lint.sites.weights.left_behind import is_blended
from mlcheck.lint.training import Replaced
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
    return any(has_parameters(m, child, besides, depth - 1) for child in inside(m, module))


def has_own_parameter(m: Machine, module: Object) -> bool:
    """Whether a class of the project keeps a parameter of its own, apart from its layers: it is there to be trained."""
    return module.cls is not None and any(map(_is_parameter, inside(m, module)))


def _is_parameter(value: Value) -> bool:
    """`nn.Parameter(...)` that is to be trained."""
    if not isinstance(value, Object) or value.type != "torch.nn.Parameter":
        return False
    return len(value.args) < 2 and "requires_grad" not in value.kwargs


def inside(m: Machine, module: Object) -> list[Value]:
    """What a module holds; of what a condition chooses, either."""
    found: list[Value] = []
    for child in (each for kept in modes.known_children(m, module) for each in either(kept)):
        items = m.store.get(("items", child.id)) if isinstance(child, Object) and not modes.is_module(child) else None
        found.extend(items.items if isinstance(items, Tuple) else [child])
    return found


def parts(m: Machine, module: Value, depth: int = 6) -> set[Hashable]:
    """The module's own modules, at whatever depth: its parameters are theirs, be its call followed into them or not."""
    if not isinstance(module, Object) or depth == 0:
        return set()
    found: set[Hashable] = set()
    for child in inside(m, module):
        found |= {owner_key(child)} | parts(m, child, depth - 1)
    return found


def hands_on(m: Machine, module: Value, parts: frozenset[Hashable]) -> bool:
    """Whether a module gives one of its parts to other code, which may compute with the weights without a call of it.

    `Dual(self.net, x)`, `for layer in self.net`.
    """
    if not isinstance(module, Object) or module.cls is None:
        return False
    held = {name: m.store.get(("a", module.id, name)) for name in m.store.get(("attrs", module.id)) or ()}
    names = [re.escape(name) for name, part in held.items() if owner_key(part) in parts]
    given = re.compile(rf"(?:[(,]\s*|\bin |=\s*)self\.(?:{'|'.join(names)})\s*(?:[,):\[]|$)", re.MULTILINE)
    return bool(names) and any(given.search(info.module.text_of(info.node)) for info in module.cls.mro)


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


def either(value: Value) -> Iterator[Value]:
    """A value; of what a condition chooses, either."""
    if isinstance(value, Select):
        yield from either(value.then)
        yield from either(value.other)
    else:
        yield value


def walked(m: Machine, params: Params, column: int | None = None) -> None:
    """A loop goes through the parameters one by one: what it does with them is not known.

    `column` is their place in a `zip` of several; an average that follows them does not change them.
    """
    loop = m.loops[-1].node if m.loops else None
    if loop is not None and (not isinstance(loop, ast.For) or (column is not None and _is_followed(loop, column))):
        return
    m.facts.training.walked |= params.owners


def _is_followed(loop: ast.For, column: int) -> bool:
    """`p` of `for t, p in zip(target.parameters(), net.parameters()): t.lerp_(p, tau)`, and nothing else in it."""
    names = list(map(ast.unparse, loop.target.elts)) if isinstance(loop.target, ast.Tuple) else []
    if len(names) != 2 or not isinstance(loop.iter, ast.Call) or not is_name(loop.iter.func, "zip"):
        return False
    average, lines = names[1 - column], list(map(ast.unparse, loop.body))
    return is_blended(loop, average) and all(line.startswith(f"{average}.") and ".grad" not in line for line in lines)
