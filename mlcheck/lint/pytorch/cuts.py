"""Where the graph is cut: `detach`, `item`, `.data`, `torch.tensor(loss)`. What was cut off is remembered beside it."""

from __future__ import annotations

import ast

from mlcheck.core.dataclasses import replace
from mlcheck.lint.facts import Backward, Place
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import holding, modes
from mlcheck.lint.training import Lost
from mlcheck.lint.values import Cut, Object, Symbol, Tensor, Traces, Value, live, owner_key, traces_of

CUTTING = frozenset(["detach", "detach_", "numpy", "item", "tolist"])
_KINDS = ("raw", "softmax", "sigmoid", "log_softmax", "log_sigmoid")
_COPIES = frozenset(["torch.tensor", "torch.autograd.Variable", "torch.from_numpy"])
_KEPT = frozenset(["to", "cuda", "cpu", "float", "double", "requires_grad_", "mean", "sum", "clone", "squeeze", "view"])


def cut(m: Machine, owner: Tensor | Symbol, split: str, node: ast.AST) -> Tensor | Symbol:
    """`owner.detach()` and its like."""
    traces = ended(m, owner.traces, node)
    if isinstance(owner, Tensor) and (owner.kind in _KINDS or not live(owner.traces)):
        return Tensor(owner.kind, owner.place, split, traces, cut=True)
    return _severed(m, split, traces, node) if live(owner.traces) else Symbol(m.fresh(), "", split, traces)


def begun(m: Machine, value: Value, written: ast.AST) -> Value:
    """`value.requires_grad_()`: where no graph was recorded, one begins here; a loss without a graph still has none."""
    if not isinstance(value, Tensor | Symbol) or (isinstance(value, Tensor) and value.kind in ("loss", "scaled")):
        return value
    calls = live(value.traces)
    if not calls or any(call.grad.kind != "off" for call in calls):
        return value
    leaf = cut(m, value, value.split, written)
    if isinstance(written, ast.Attribute) and isinstance(written.value, ast.Name):
        m.bind(written.value.id, leaf)
    return leaf


def of_data(m: Machine, owner: Tensor | Symbol, result: Value, node: ast.AST) -> Value:
    """`owner.data`."""
    traces = ended(m, owner.traces, node)
    if isinstance(result, Tensor):
        return replace(result, traces=traces, cut=True)
    return replace(result, traces=traces) if isinstance(result, Symbol) else result


def copied(m: Machine, name: str, first: Value, node: ast.AST) -> Value | None:
    """`torch.tensor(x)` makes a new leaf of what was computed; None for any other function."""
    if name not in _COPIES:
        return None
    if severed_at(m, first) is not None:
        return first
    inner = containers.contents(m, first)
    traces = traces_of(inner if inner is not None else first)
    if not traces:
        return None
    if isinstance(first, Tensor) and first.kind in _KINDS:
        return Tensor(first.kind, first.place, first.split, ended(m, traces, node), cut=True)
    return _severed(m, "", ended(m, traces, node), node)


def severed_at(m: Machine, value: Value) -> Place | None:
    """Where the value lost its way back to what it was computed from; None where it did not."""
    if isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("severed",):
        found: Place | None = m.store.get(value.key)
        return found
    return None


def leaf(m: Machine, traces: Traces) -> Place | None:
    """`net(x).requires_grad_()` under `no_grad()`: where all that a loss came from begins.

    None where anything else is behind the loss, or where an optimizer may have what begins there instead of the net.
    """
    ends = [trace for trace in traces if isinstance(trace, Cut) and trace.forward.grad.kind == "off"]
    if not ends or len(ends) != len(traces) or not all(_is_begun(end.place) for end in ends):
        return None
    owned = [m.store.get(("owns", key)) or frozenset() for key in m.store.get(("optimizers",)) or ()]
    nets = [{owner_key(end.forward.module), *end.forward.touched} for end in ends]
    return ends[0].place if owned and all(have & net for have in owned for net in nets) else None


def _is_begun(place: Place) -> bool:
    return isinstance(place.node, ast.Attribute) and place.node.attr == "requires_grad_"


def stays(m: Machine, owner: Value, name: str) -> bool:
    """Whether a method leaves a severed value severed."""
    return name in _KEPT and severed_at(m, owner) is not None


def _severed(m: Machine, split: str, traces: Traces, node: ast.AST) -> Symbol:
    key = ("severed", m.fresh())
    m.store.set(key, m.place(node))
    return Symbol(key, "", split, traces)


def ended(m: Machine, traces: Traces, node: ast.AST) -> Traces:
    """What no gradient passes: each call is remembered as cut off here."""
    if not traces:
        return traces
    place = m.place(node)
    return frozenset(Cut(place, trace) if not isinstance(trace, Cut) else trace for trace in traces)


def lost(m: Machine, backward: Backward, traces: Traces) -> None:
    """Modules of an optimizer whose results reach this backward only past a cut."""
    if backward.severed is not None:
        return
    trains = any(forward.grad.kind != "off" for forward in backward.forwards)
    for forward in backward.forwards if trains else ():
        if forward.grad.kind == "off":
            for key in m.store.get(("optimizers",)) or ():
                owned, module = m.store.get(("owns", key)) or frozenset(), owner_key(forward.module)
                if module in owned and (isinstance(forward.module, Object) or len(owned) == 1):
                    _remember(m, key, Lost(forward.place, forward, backward.place))
    for trace in traces:
        if not isinstance(trace, Cut) or trace.forward.grad.kind != "on" or trace.forward.frozen:
            continue
        forward = trace.forward
        around = {outer for inner in forward.touched for outer in modes.ancestors(m, inner)}
        known = isinstance(forward.module, Object) and holding.has_parameters(m, forward.module)
        for key in m.store.get(("optimizers",)) or ():
            owned = m.store.get(("owns", key)) or frozenset()
            if (known and not owned.isdisjoint(around)) or not owned.isdisjoint({*forward.touched} & owned):
                _remember(m, key, Lost(trace.place, forward, backward.place))


def _remember(m: Machine, optimizer: object, fact: Lost) -> None:
    held: dict[object, Lost] = dict(m.store.get(("lost", optimizer)) or {})
    held.pop(fact.forward.place.spot, None)
    held[fact.forward.place.spot] = fact
    m.store.set(("lost", optimizer), held)


def stepped(m: Machine, optimizer: object) -> None:
    """A step that lacks those gradients: what the last backward before it could not give."""
    held = list((m.store.get(("lost", optimizer)) or {}).values())
    if held:
        m.facts.training.lost += [fact for fact in held if fact.backward == held[-1].backward]
        m.store.set(("lost", optimizer), {})
