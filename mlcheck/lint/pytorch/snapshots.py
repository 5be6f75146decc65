"""Weights kept for later: a `state_dict` shares its memory with the model, and so does the model by another name."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.certainty import always
from mlcheck.lint.interpret.joins import sides
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.pytorch import modes
from mlcheck.lint.training import SelfCopy, Snapshot
from mlcheck.lint.values import Object, Params, Select, Symbol, Table, Value, owner_key

STATE = "torch.state_dict"
_AVERAGE = pattern(r"(?:^|_)(?:ema|shadow|averaged|polyak)(?:_|$)", re.IGNORECASE)


def state_dict(m: Machine, module: Value, node: ast.AST) -> Object:
    """`module.state_dict()`."""
    made = Object(STATE, m.fresh(), None, (module,), {}, m.place(node))
    m.store.set(("alias", made.id), owner_key(module))
    return made


def is_state(value: Value) -> bool:
    return isinstance(value, Object) and value.type == STATE


def view(m: Machine, state: Object, name: str) -> Object:
    """`state.copy()`, which shares all tensors; `state.items()` and `state.values()`."""
    return state if name == "copy" else Object(f"{STATE}.{name}", m.fresh(), None, (state,))


def rebuilt(node: ast.DictComp, source: Value) -> Value | None:
    """`{k: v for k, v in state.items()}`: another dictionary of the same tensors."""
    if not isinstance(source, Object) or source.type != STATE + ".items":
        return None
    target = node.generators[0].target
    if isinstance(target, ast.Tuple) and len(target.elts) == 2 and len(node.generators) == 1:
        return source.args[0] if ast.unparse(node.value) == ast.unparse(target.elts[1]) else None
    return None


def load(m: Machine, module: Value, state: Value | None, node: ast.AST) -> None:
    """`module.load_state_dict(state)`."""
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    direct = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "state_dict"
    if direct and isinstance(state, Object) and m.store.get(("alias", state.id)) == owner_key(module):
        m.facts.training.self_copies.append(SelfCopy(m.place(node)))


def zipped(m: Machine, columns: tuple[Value, ...], node: ast.AST) -> None:
    """A loop over the parameters of two modules, which may be one and the same."""
    owners = {column.owners for column in columns if isinstance(column, Params) and not column.gradient}
    states = [
        column.args[0] for column in columns if isinstance(column, Object) and column.type.startswith(STATE + ".")
    ]
    aliases = {m.store.get(("alias", state.id)) for state in states if isinstance(state, Object)}
    if len(states) > 1 and len(aliases) == 1 and None not in aliases:
        m.facts.training.self_copies.append(SelfCopy(m.place(node)))
    params = sum(isinstance(column, Params) and not column.gradient for column in columns)
    text = ast.unparse(node)
    named = any(word in text for word in ("named_", "buffers", "parameters(time="))  # `higher` keeps those of each step
    if params > 1 and len(owners) == 1 and frozenset() not in owners and not named:
        m.facts.training.self_copies.append(SelfCopy(m.place(node)))


def assigned(m: Machine, target: ast.expr, value: Value) -> None:
    """A variable may come to hold weights for later: when it is bound in a loop, and not in each of its turns."""
    if isinstance(target, ast.Name | ast.Attribute) and _AVERAGE.search(last_name(target)):
        _averaged(m, target, value)
    if not isinstance(target, ast.Name | ast.Attribute) or not m.loops:
        return
    taken = _taken_at_times(m, target, value)
    kept = _state_of_any(m, value) if taken is None else taken
    if not isinstance(kept, Object | Symbol):
        return
    key, item, place = _shared(m, target, kept)
    if key is None or (isinstance(target, ast.Attribute) and not _is_for_later(m, target.attr)):
        return
    within = m.frame.info.node if m.frame.info is not None else m.frame.module.source.tree
    if taken is None and always(m) and target not in _branched(m, within):
        return
    kind = "state" if item is not None else "model"
    fact = Snapshot(place or m.place(target), kind, target, item or "", within, m.now(), by_helper=taken is not None)
    m.facts.training.snapshots.append(fact)
    known: frozenset[Snapshot] = m.store.get(("snapshots", key)) or frozenset()
    m.store.set(("snapshots", key), known | {fact})
    keys: tuple[Hashable, ...] = m.store.get(("snapshots",)) or ()
    m.store.set(("snapshots",), (*keys, key) if key not in keys else keys)


def _state_of_any(m: Machine, value: Value) -> Value:
    """The state of one of the models that the value may be of, where it is a state of whichever it is."""
    found = sides(value)
    return found[0] if all(isinstance(side, Object) and m.store.get(("alias", side.id)) for side in found) else value


def _taken_at_times(m: Machine, target: ast.expr, value: Value) -> Object | None:
    """The weights that a helper gives back in one case, where it else gives back what the variable held before."""
    old = m.lookup(target.id) if isinstance(target, ast.Name) and isinstance(value, Select) else None
    found = sides(value)
    states = [side for side in found if isinstance(side, Object) and side is not old]
    states = [side for side in states if m.store.get(("alias", side.id))]
    before = sides(old) if old is not None else []
    return states[0] if states and any(side in before for side in found) else None


def _branched(m: Machine, within: ast.AST) -> frozenset[ast.AST]:
    """All that stands in the branches of a function or module."""
    if within not in m.branched:
        branches = [node for node in walk(within) if isinstance(node, ast.If)]
        m.branched[within] = frozenset(inner for branch in branches for inner in walk(branch))
    return m.branched[within]


def _is_for_later(m: Machine, name: str) -> bool:
    """By its name, or because somebody loads it: `model.load_state_dict(stopper.weights)`."""
    if "best" in name.lower():
        return True
    files = m.facts.sites.mentioning(["load_state_dict"], tests=True)
    texts = [file.text for file in files if f".{name}" in file.text]
    loaded = rf"load_state_dict\(\s*[\w.]*\.{re.escape(name)}\b"
    return any(re.search(loaded, text) for text in texts)


def _averaged(m: Machine, target: ast.expr, value: Value) -> None:
    """What is to be an average of weights is a module that has another name already."""
    other = m.store.get(("name", owner_key(value))) or (value.name if isinstance(value, Symbol) else "")
    if not other or _AVERAGE.search(other) or not _is_second_name(m, target) or _is_made_otherwise(m, target):
        return
    if modes.is_module(value) or modes.known_as_module(m, value):
        m.store.set(("average", owner_key(value)), m.place(target))


def _is_second_name(m: Machine, target: ast.expr) -> bool:
    """Whether what is assigned has a name that is read elsewhere too: `made = Net()`, `ema = made` is one module."""
    within = m.frame.info.node if m.frame.info is not None else m.frame.module.source.tree
    nodes = walk(within)
    given = next((each.value for each in nodes if isinstance(each, ast.Assign) and target in each.targets), None)
    if not isinstance(given, ast.Name):
        return not isinstance(given, ast.Call)
    is_parameter = any(isinstance(node, ast.arg) and node.arg == given.id for node in nodes)
    reads = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return is_parameter or sum(node.id == given.id for node in reads) > 1


def _is_made_otherwise(m: Machine, target: ast.expr) -> bool:
    """`if decay: ema = deepcopy(model)`, `else: ema = model`: without an average the model stands in for it."""
    within = m.frame.info.node if m.frame.info is not None else m.frame.module.source.tree
    name = ast.unparse(target)
    for branch in walk(within) if target in _branched(m, within) else ():
        if isinstance(branch, ast.If) and branch.orelse:
            arms = [[part for line in arm for part in walk(line)] for arm in (branch.body, branch.orelse)]
            inside = [any(part is target for part in arm) for arm in arms]
            bound = [any(_binds(part, name) for part in arm) for arm in arms]
            if any(inside) and all(bound):
                return True
    return False


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets)


def _shared(m: Machine, target: ast.expr, value: Object | Symbol) -> tuple[Hashable, str | None, Place | None]:
    """Whose weights the value shares, under which key of a dictionary (None: it is the model), and where from."""
    if isinstance(value, Object):
        if (key := m.store.get(("alias", value.id))) is not None:
            return key, "", value.place
        table = containers.table(m, value)
        for name, held in table.items.items() if isinstance(table, Table) else ():
            if isinstance(held, Object) and (key := m.store.get(("alias", held.id))) is not None:
                return key, str(name), held.place
    if last_name(target).lower().startswith("best") and (modes.is_module(value) or modes.known_as_module(m, value)):
        return owner_key(value), None, None
    return None, None, None


def stepped(m: Machine, optimizer: Hashable) -> None:
    """An optimizer stepped: what shares its parameters' memory is no longer what it was."""
    owned = m.store.get(("owns", optimizer)) or frozenset()
    for owner in owned:
        if (place := m.store.get(("average", owner))) is not None:
            m.facts.training.self_copies.append(SelfCopy(place))
    keys: tuple[Hashable, ...] = m.store.get(("snapshots",)) or ()
    if not keys:
        return
    alone = len(m.store.get(("optimizers",)) or ()) == 1
    now = m.now()
    for key in keys:
        around = set(modes.ancestors(m, key))
        inside = any(key in set(modes.ancestors(m, owner)) for owner in owned)
        if not (owned.isdisjoint(around) and not inside) or (not owned and alone):
            for snapshot in m.store.get(("snapshots", key)) or ():
                if now.later_turn(snapshot.when) is not None:
                    snapshot.trained_on = True
