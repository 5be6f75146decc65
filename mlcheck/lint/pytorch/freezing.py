"""Parameters that are frozen and set free, and what that means for the optimizers that hold them."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.interpret.certainty import always, assumed
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import loads, walk
from mlcheck.lint.pytorch import modes
from mlcheck.lint.training import Freeze, FrozenHeld, Optimizer, Thawed
from mlcheck.lint.values import Const, Object, Symbol, Value

_DEPTH = 3


def freeze(m: Machine, owners: frozenset[Hashable], value: Value, node: ast.AST, one: bool = False) -> None:
    """`requires_grad` of all parameters of these modules, or (`one`) of one after another, is set."""
    known = value.value if isinstance(value, Const) and isinstance(value.value, bool) else None
    loop = m.loops[-1] if m.loops else None
    if one and not (loop and isinstance(loop.node, ast.For) and "parameters" in ast.unparse(loop.node.iter)):
        return
    chosen = one and known is None and loop is not None and _is_by_name(loop.node, node)
    fact = Freeze(_asked_at(m, node), owners, one and (chosen or not always(m)), loop, m.fresh(), assumed(m))
    if known is not False:
        _thaw_held(m, owners)
        if not owners <= m.moded:
            freed_unseen(m)
    if known is True:
        _thaw(m, fact)
    if known is False or chosen:
        m.store.set(("freezes",), (*(m.store.get(("freezes",)) or ()), fact)[-8:])
    elif known is True and always(m):
        for earlier in m.store.get(("freezes",)) or ():
            if earlier.loop is not loop and fact.assumed <= earlier.assumed and _undone(m, earlier, owners):
                m.facts.training.unfrozen.append((fact.place, earlier.place))


def _is_by_name(loop: ast.AST, node: ast.AST) -> bool:
    """`for name, p in model.named_parameters(): p.requires_grad = name.startswith("head")`."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return False
    names = {part.id for part in loop.target.elts[:-1] if isinstance(part, ast.Name)}
    lines = (line for line in walk(loop) if isinstance(line, ast.Assign) and node in line.targets)
    given = [*(line.value for line in lines), *(node.args if isinstance(node, ast.Call) else ())]
    return any(loads(value, name) for value in given for name in names)


def _asked_at(m: Machine, node: ast.AST) -> Place:
    """The place of the setting; where it sets what its function was given, `p.requires_grad = flag`, of the call.

    So for `p.requires_grad_(flag)`.
    """
    info, call = m.frame.info, m.frame.node
    if info is not None and isinstance(call, ast.Call):
        given = node.args[0] if isinstance(node, ast.Call) and node.args else None
        assigned = (line.value for line in walk(info.node) if isinstance(line, ast.Assign) and node in line.targets)
        if isinstance(next(assigned, given), ast.Name):
            outer = m.frames[-2]
            return Place(outer.module.source.path, call, outer.info.qualname if outer.info else "")
    return m.place(node)


def held_frozen(m: Machine, optimizer: Optimizer) -> None:
    """An optimizer of parameters that were all frozen, for certain, when it was made."""
    if not optimizer.owners or "requires_grad" in ast.unparse(optimizer.place.node):
        return
    places = set()
    for owner in optimizer.owners:
        around = set(modes.ancestors(m, owner))
        frozen = [
            fact
            for fact in m.store.get(("freezes",)) or ()
            if not fact.chosen and not fact.assumed and not around.isdisjoint(fact.owners)
        ]
        last = frozen[-1] if frozen else None
        if last is None or not _all_frozen(m, owner, last.stamp) or _unseen_since(m) > last.stamp:
            return
        places.add(last.place)
    m.facts.training.frozen_held.append(FrozenHeld(min(places, key=lambda place: place.spot), optimizer))


def _all_frozen(m: Machine, owner: Hashable, stamp: int) -> bool:
    """Whether no part of the module is younger than its freezing, and none was set free since."""
    parts = {owner} | {key for key in m.moded if owner in set(modes.ancestors(m, key))}
    return all(
        (m.store.get(("born", key)) or 0) < stamp and m.store.get(("frozen", key)) != Const(False) for key in parts
    )


def freed_unseen(m: Machine) -> None:
    """Parameters were set free, or new ones put in, and it is not known which module they belong to."""
    m.store.set(("freed at",), m.fresh())
    m.facts.training.frozen_held.clear()


def _unseen_since(m: Machine) -> int:
    """When code that is not known last had a module, or changed some of its parameters."""
    return max(m.store.get(("freed at",)) or 0, m.store.get(("trained at",)) or 0)


def _thaw_held(m: Machine, owners: frozenset[Hashable]) -> None:
    """Some parameters are set free: an optimizer that holds them is of use again."""
    around = {outer for owner in owners for outer in modes.ancestors(m, owner)}
    held = m.facts.training.frozen_held
    held[:] = [
        fact
        for fact in held
        if fact.optimizer.owners.isdisjoint(around)
        and all(owners.isdisjoint(modes.ancestors(m, owner)) for owner in fact.optimizer.owners)
    ]


def _thaw(m: Machine, fact: Freeze) -> None:
    """Parameters are set free that optimizers had left out, because they were frozen when these were made."""
    around = {outer for owner in fact.owners for outer in modes.ancestors(m, owner)} | _holders(m, fact.owners)
    frozen = [earlier for earlier in m.store.get(("freezes",)) or () if not earlier.owners.isdisjoint(around)]
    for key in m.store.get(("optimizers",)) or ():
        made = m.facts.training.optimizers.get(key)
        if made is None or made.owners.isdisjoint(around) or not _leaves_out_frozen(m, made):
            continue
        if any(earlier.stamp < key < fact.stamp for earlier in frozen):
            m.facts.training.thawed.append(Thawed(fact.place, fact.stamp, made))


def _holders(m: Machine, owners: frozenset[Hashable]) -> set[Hashable]:
    """The modules that optimizers hold, and in which one of these stands whose making is not known."""
    held = {key for made in m.facts.training.optimizers.values() for key in made.owners}
    return {key for key in held if not owners.isdisjoint(_unknown_inside(m, key))}


def _unknown_inside(m: Machine, key: Hashable, depth: int = _DEPTH) -> Iterator[Hashable]:
    for name in m.store.get(("attrs", key)) or () if depth else ():
        value = m.store.get(("a", key, name))
        if isinstance(value, Symbol):
            yield value.key
        elif isinstance(value, Object) and modes.is_module(value):
            yield from _unknown_inside(m, value.id, depth - 1)


def _leaves_out_frozen(m: Machine, made: Optimizer) -> bool:
    """`Adam(p for p in net.parameters() if p.requires_grad)`, also where those have a name first."""
    call = m.facts.sites.call_at(made.place)
    given = call.argument("params", 0) if call is not None else None
    value = call.file.value(given, call.context)[0] if call is not None and given is not None else None
    return any("requires_grad" in ast.unparse(node) for node in (made.place.node, value) if node is not None)


def freeze_in_vain(m: Machine, module: Object, value: Value, node: ast.AST) -> None:
    """`module.requires_grad = False`: a new attribute of the module, which its parameters know nothing of.

    A module that keeps what it was given, `self.requires_grad = requires_grad`, may well read it.
    """
    if m.frame.bound is module:
        return
    own = module.cls is not None and any("requires_grad" in info.assigned for info in module.cls.mro)
    if isinstance(value, Const) and isinstance(value.value, bool) and not own:
        if module.cls is None or module.cls.find("requires_grad=") is None:
            m.facts.training.frozen_in_vain.append(m.place(node))


def _undone(m: Machine, freeze: Freeze, owners: frozenset[Hashable]) -> bool:
    """Whether setting all of `owners` free takes back a choice made among them, before it had any effect."""
    if freeze.stamp < (m.store.get(("trained at",)) or 0):
        return False
    around = {outer for owner in freeze.owners for outer in modes.ancestors(m, owner)}
    if not owners <= around:
        return False
    return freeze.chosen or owners.isdisjoint(freeze.owners)
