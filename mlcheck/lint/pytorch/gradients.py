"""Gradients as an optimizer meets them: cleared, fresh, used, added to, erased."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from functools import lru_cache

from mlcheck.lint.facts import Backward, Forward, Grads, Place, Step
from mlcheck.lint.interpret import guards
from mlcheck.lint.interpret.certainty import always, decided
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import cuts, freezing, graph, holding, keeping, left_out, mixing, modes, scaling, snapshots
from mlcheck.lint.pytorch.library_names import OPTIMIZER_LIBRARIES
from mlcheck.lint.training import Clearing, Optimizer
from mlcheck.lint.values import Const, Object, Params, Symbol, Tensor, Traces, Value, live, owner_key, traces_of

_UNKNOWN = frozenset([Grads("unknown")])
_OLD = ("used", "stale", "added")


def is_optimizer(m: Machine, value: Value) -> bool:
    """An optimizer for certain, or an unknown value used or named as one."""
    if isinstance(value, Object):
        if value.cls is not None:
            return _is_of_optimizers(value.cls.libraries)
        last = value.type.rpartition(".")[2]
        return value.type.startswith(OPTIMIZER_LIBRARIES) and "lr_scheduler" not in value.type and last[:1].isupper()
    if isinstance(value, Symbol):
        if m.store.get(("grads", value.key)) is not None:
            return True
        return _is_named_optimizer(value.name)
    return False


@lru_cache(1024)
def _is_of_optimizers(libraries: frozenset[str]) -> bool:
    return any(name.startswith("torch.optim.Optimizer") for name in libraries)


@lru_cache(4096)
def _is_named_optimizer(name: str) -> bool:
    name = name.lower().strip("_")
    return "optim" in name or name == "opt" or name.startswith("opt_") or name.endswith("_opt")


def register(m: Machine, value: Value) -> Hashable:
    """Keep this optimizer's gradients from now on."""
    key = owner_key(value)
    known = m.store.get(("optimizers",)) or ()
    if key not in known:
        m.store.set(("optimizers",), (*known, key))
        clean = isinstance(value, Object) and value.cls is None
        m.store.set(("grads", key), frozenset([Grads("clean")]) if clean else _UNKNOWN)
        owners = holding.owners_of(m, value)
        m.store.set(("owns", key), owners)
        m.store.set(("may own", key), owners or holding.possible_owners(m, value))
        m.store.set(("of a choice", key), None if owners else value)
        if isinstance(value, Object) and value.place is not None:
            made = Optimizer(value.place, key, value.type, owners, m.now(), always(m))
            made.around = frozenset(outer for owner in owners for outer in modes.ancestors(m, owner))
            m.facts.training.optimizers[key] = made
            freezing.held_frozen(m, made)
    return key


def _change(m: Machine, key: Hashable, rule: dict[str, str], place: Place | None, weak: bool = False) -> None:
    changed = set()
    for grads in guards.held(m, key):
        kind = rule.get(grads.kind, grads.kind)
        if weak and kind != grads.kind:
            changed.add(Grads("unknown", under=grads.under))
        elif kind == grads.kind and kind != "stale" and kind != "fresh":
            changed.add(grads)
        else:
            loop = m.loops[-1].node if m.loops and kind in ("fresh", "stale") else None
            changed.add(Grads(kind, place, grads.step, loop, under=grads.under))
    m.store.set(("grads", key), frozenset(changed))


_BACKWARD = {"clean": "fresh", "used": "stale", "erased": "fresh", "unknown": "added"}
_WRAPPED = {"clean": "unknown", "erased": "unknown", "used": "unknown"}
_UNSEEN, _MAYBE, _NOT = {"erased": "unknown", "clean": "unknown"}, {"erased": "unknown"}, {"erased": "clean"}
_REACHED = {"yes": _BACKWARD, "unseen": _UNSEEN, "maybe": _MAYBE, "no": _NOT, "wrapped": _WRAPPED}
_ZERO = {"fresh": "erased", "added": "erased", "used": "clean", "stale": "clean", "unknown": "clean"}


def backward(m: Machine, node: ast.AST, loss: Value, others: tuple[Value, ...] = ()) -> None:
    """A backward pass: gradients reach every optimizer whose parameters the loss was computed with."""
    cutting, place = traces_of(loss, *others), m.place(node)
    traces = live(cutting)
    known, unseen = traces - {graph.UNSEEN}, graph.UNSEEN in traces
    fact = Backward(place, known, m.grad, m.now(), unseen, autocast=m.store.get(("autocast",)))
    m.facts.backwards.append(fact)
    asked(m, traces)
    scaled = isinstance(loss, Tensor) and loss.kind == "scaled"
    if scaled:
        fact.scaled = (isinstance(loss, Tensor) and scaling.is_on(loss.scaler)) or None
    fact.severed = cuts.severed_at(m, loss) or cuts.leaf(m, cutting)
    cuts.lost(m, fact, cutting)
    keeping.differentiated(m, loss)
    m.store.set(("scaling",), frozenset([Grads("scaled" if scaled else "plain", place)]))
    optimizers = m.store.get(("optimizers",)) or ()
    m.store.set(("trained at",), m.fresh())
    left_out.unheld(m, fact)
    reach = {key: reaches(m, key, traces, len(optimizers)) for key in optimizers}
    recorded = frozenset(trace for trace in traces if trace.grad.kind != "off" and not trace.frozen)
    reached = reach if not recorded else {key: reaches(m, key, recorded, len(reach), True) for key in reach}
    m.store.set(("behind", place), known)
    fact.reached = {key for key, how in reach.items() if how == reached[key] == "yes"}
    mixing.mixed(m, fact)
    for key, how in reach.items():
        if how == "yes" and key in m.facts.training.optimizers:
            m.facts.training.optimizers[key].name = m.store.get(("name", key)) or ""
        _change(m, key, _REACHED[how], place)


def asked(m: Machine, traces: Traces) -> None:
    """Somebody wants gradients of what these forwards computed."""
    for forward in live(traces):
        forward.trained = True
    if m.loops:
        m.loops[-1].trains = True


def reaches(m: Machine, key: Hashable, traces: frozenset[Forward], rivals: int, moved: bool = False) -> str:
    """Whether a backward through these forwards reaches this optimizer: yes, no, maybe, unseen, or wrapped.

    Unseen: the loss may come from code that is not known. Wrapped: an unknown module, which by its name has the
    optimizer's own inside. Lightning's `toggle_optimizer` switches off gradients of what only other optimizers hold.
    `moved`: a module that only ran frozen inside another one does not count.
    """
    owned = m.store.get(("owns", key)) or frozenset()
    toggled = m.store.get(("toggled",))
    if toggled not in (None, key) and owned.isdisjoint(m.store.get(("owns", toggled)) or owned):
        return "no"
    chosen = m.store.get(("of a choice", key)) if not owned else None
    either = holding.possible_owners(m, chosen) if chosen is not None else frozenset()
    if not (owned or either) or not traces:
        return "yes" if rivals == 1 else "unseen" if owned else "maybe"
    touched = set[Hashable]().union(*(f.touched - f.touched.still if moved else f.touched for f in traces))
    around = touched if not owned.isdisjoint(touched) else {each for key in touched for each in modes.ancestors(m, key)}
    if not owned.isdisjoint(around) or (either and either <= around):
        return "yes"
    if either:
        return "yes" if rivals == 1 else "maybe"
    unknown = [trace for trace in traces if isinstance(trace.module, Symbol)]
    if any(modes.WRAPPER.search(trace.name) for trace in unknown):
        return "wrapped"
    wholes = {outer for part in owned for outer in modes.ancestors(m, part)}
    called = {owner_key(trace.module) for trace in unknown}  # and nobody saw which of its parts each of them called
    nameless = any(isinstance(part, int) and m.store.get(("owner", part)) for part in owned)  # any module may be meant
    if any(holding.hands_on(m, trace.module, owned) for trace in traces):
        return "unseen"
    return "no" if graph.UNSEEN not in traces and called.isdisjoint(wholes) and not nameless else "unseen"


def zero(m: Machine, node: ast.AST, optimizer: Value) -> None:
    """`optimizer.zero_grad()`. An unknown optimizer may be any other under a second name, or hold one inside."""
    key = register(m, optimizer)
    place = m.place(node)
    if isinstance(optimizer, Symbol) or (isinstance(optimizer, Object) and optimizer.cls is not None):
        for other in m.store.get(("optimizers",)) or ():
            if other != key:
                _may_clear(m, other)
    _cleared(m, key, place)
    _change(m, key, _ZERO, place)
    _plain(m)


def _may_clear(m: Machine, key: Hashable) -> None:
    found = m.store.get(("grads", key)) or _UNKNOWN
    kept = frozenset(grads._replace(kind="unknown") if grads.kind in _OLD else grads for grads in found)
    m.store.set(("grads", key), kept)


def _cleared(m: Machine, key: Hashable, place: Place) -> None:
    found = guards.held(m, key)
    for forward in (forward for grads in found for forward in m.store.get(("behind", grads.place)) or ()):
        forward.learns = bool(forward.learns)
    if any(grads.kind == "fresh" for grads in found):
        gathered = {grads.loop for grads in found}
        depth = next((depth for depth, loop in enumerate(m.loops) if loop.node in gathered), -1)
        m.facts.training.clearings.append(Clearing(place, key, found, m.now(), always(m, depth)))


def zero_modules(m: Machine, node: ast.AST, owners: frozenset[Hashable], some: bool = False) -> None:
    """`module.zero_grad()`, or the gradients of (some of) its parameters set to None or zero one by one."""
    place = m.place(node)
    optimizers = m.store.get(("optimizers",)) or ()
    inside = scaling.held(m, owners)
    for key in optimizers:
        owned = m.store.get(("owns", key)) or frozenset()
        covered = {each for each in owned if each in inside or not owners.isdisjoint(set(modes.ancestors(m, each)))}
        if not some and ((owned and covered == owned) or (not owned and len(optimizers) == 1)):
            _cleared(m, key, place)
            _change(m, key, _ZERO, place)
        elif covered or not owned or not owned.isdisjoint({o for i in owners for o in modes.ancestors(m, i)}):
            _change(m, key, _ZERO, place, weak=True)
    _plain(m)


def zero_anything(m: Machine, node: ast.AST) -> None:
    """Gradients of something unknown were cleared or replaced."""
    for key in m.store.get(("optimizers",)) or ():
        m.store.set(("grads", key), _UNKNOWN)
    _plain(m)


def _plain(m: Machine) -> None:
    m.store.set(("scaling",), frozenset([Grads("plain")]))
    m.store.set(("cleared at",), m.fresh())  # without an optimizer it came to nothing: the next call may not


def step(m: Machine, node: ast.AST, optimizer: Value, clears: bool = False, scaler: bool = False) -> None:
    """`optimizer.step()`; `clears` where a framework zeroes the gradients right after."""
    key = register(m, optimizer)
    place = m.place(node)
    found = guards.held(m, key)
    name = (m.store.get(("name", key)) or "") if isinstance(optimizer, Object) else getattr(optimizer, "name", "")
    scaling = guards.possible(m, m.store.get(("scaling",)) or _UNKNOWN)
    m.facts.steps.append(Step(place, name, found, m.now(), key, scaling, scaler, always(m), decided(m)))
    m.store.set(("stepped", key), True)
    _taught(m, key, found)
    snapshots.stepped(m, key)
    cuts.stepped(m, key)
    mixing.stepped(m, key)
    idle = m.store.get(("trained at",)) is None and not clears  # no backward yet: it may have found nothing to use
    unseen = {grads for grads in found if idle and grads.kind == "unknown"}
    kinds = {grads: "clean" if clears or grads.kind == "clean" else "used" for grads in found - unseen}
    after = unseen | {Grads(kind, place, place, under=grads.under) for grads, kind in kinds.items()}
    m.store.set(("grads", key), frozenset(after))


def _taught(m: Machine, key: Hashable, found: frozenset[Grads]) -> None:
    """Whose weights the step moved, of the modules that had a part in the losses it follows."""
    rivals = len(m.store.get(("optimizers",)) or ())
    for grads in found:
        for forward in m.store.get(("behind", grads.place)) or ():
            forward.learns = bool(forward.learns) or reaches(m, key, frozenset([forward]), rivals) != "no"


def forget(m: Machine, optimizer: Value) -> None:
    key = register(m, optimizer)
    m.store.set(("grads", key), _UNKNOWN)
    m.store.set(("stepped", key), True)
    if key in m.facts.training.optimizers:
        m.facts.training.optimizers[key].handed_on = True


def extended(m: Machine, optimizer: Value) -> None:
    """It was given more parameters since it was made."""
    key = register(m, optimizer)
    if key in m.facts.training.optimizers:
        m.facts.training.optimizers[key].handed_on = True


def assigned(m: Machine, owner: Value, value: Value, node: ast.AST) -> None:
    """`p.grad = value`: clearing when it is None, anything else is the program's own business."""
    if isinstance(value, Const) and value.value is None and isinstance(owner, Params):
        zero_modules(m, node, owner.owners, some=not always(m))
    elif isinstance(owner, Params | Symbol):
        zero_anything(m, node)
