"""Losses that are summed up or collected with the graph behind them."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Forward, Loop, Place
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.pytorch import graph
from mlcheck.lint.training import Kept
from mlcheck.lint.values import Object, Select, Symbol, Table, Tensor, Tuple, Value, live, traces_of

_PARTS = pattern(r"accum|micro", re.IGNORECASE)
_RECENT = 8  # how far back a loss may have been kept before the backward that runs on it
_DIFFERENTIABLE = ("loss", "raw", "softmax", "sigmoid", "log_softmax", "log_sigmoid")


def _is_differentiable(value: Tensor | Symbol) -> bool:
    return isinstance(value, Tensor) and value.kind in _DIFFERENTIABLE


def graph_of(m: Machine, value: Value) -> frozenset[Forward]:
    """The module calls behind a loss or an output, or one in a tuple or dictionary; empty where there is none."""
    known = m.store.get(("differentiated",)) or ()
    if isinstance(value, Tensor | Symbol) and (_is_differentiable(value) or any(value is other for other in known)):
        calls = live(value.traces) - {graph.UNSEEN}
        return calls if all(map(_recorded, calls)) else frozenset()
    held = containers.contents(m, value)
    inside = held.items.values() if isinstance(held, Table) else held.items if isinstance(held, Tuple) else ()
    return next((calls for item in inside if isinstance(item, Tensor) and (calls := graph_of(m, item))), frozenset())


def _recorded(call: Forward) -> bool:
    """Whether gradients were on: said so, or a backward went through it, which nothing else could have."""
    return call.grad.kind == "on" or (call.grad.kind == "unknown" and call.trained)


def _output(m: Machine, value: Value) -> frozenset[Forward]:
    """The call of an unknown module whose very output this is, where a backward went through it."""
    call = m.store.get(("output", value.key)) if isinstance(value, Symbol) else None
    return frozenset([call]) if isinstance(call, Forward) and call.trained and call.grad.kind == "on" else frozenset()


def differentiated(m: Machine, loss: Value) -> None:
    """A backward ran on this very value: it had a graph."""
    m.store.set(("differentiated",), (*(m.store.get(("differentiated",)) or ()), loss)[-4:])
    for kept in m.facts.training.kept[-_RECENT:]:
        kept.trained = kept.trained or kept.loss is loss


def rebound(m: Machine, node: ast.Assign, value: Value) -> None:
    """`total = total + loss`, `average = 0.9 * average + 0.1 * loss if average is not None else loss`."""
    _chained(m, node, value)
    total = node.value.left if isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add) else None
    if m.loops and (piece := _joined_to(node)) is not None:
        added(m, node, node.targets[0], m.lookup(piece.id) or value)
    if m.loops and total is not None and len(node.targets) == 1 and _reads(total, node.targets[0]):
        added(m, node, node.targets[0], value)


def _joined_to(node: ast.Assign) -> ast.Name | None:
    """`loss` of `history = torch.cat([history, loss.view(1)])`."""
    call = node.value
    if not isinstance(call, ast.Call) or last_name(call.func) not in ("cat", "concat", "hstack") or not call.args:
        return None
    parts = call.args[0].elts if isinstance(call.args[0], ast.List | ast.Tuple) else []
    if len(parts) != 2 or ast.unparse(parts[0]) != ast.unparse(node.targets[0]):
        return None
    piece = before_methods(parts[1], ("view", "reshape", "unsqueeze", "flatten"))
    return piece if isinstance(piece, ast.Name) else None


def _reads(total: ast.expr, target: ast.expr) -> bool:
    """`total` itself; `totals.get(key, 0)` of `totals[key]`."""
    if isinstance(total, ast.Call) and isinstance(total.func, ast.Attribute) and total.func.attr == "get":
        return isinstance(target, ast.Subscript) and ast.unparse(total.func.value) == ast.unparse(target.value)
    return ast.unparse(total) == ast.unparse(target)


def _chained(m: Machine, node: ast.Assign, value: Value) -> None:
    """What is computed from itself and a loss comes, in a later turn, with the graphs of the turns before."""
    target = node.targets[0]
    if not m.loops or len(node.targets) != 1 or not isinstance(target, ast.Name | ast.Attribute) or m.grad.kind != "on":
        return
    if isinstance(node.value, ast.Call) or not isinstance(value, Tensor | Symbol | Select):
        return
    calls, now = live(traces_of(value)) - {graph.UNSEEN}, m.now()
    loop = _loop_of(m, calls)
    old = {call for call in calls if loop is not None and now.later_turn(call.when) is loop}
    parts = {ast.unparse(part) for part in walk(node.value) if isinstance(part, ast.Name | ast.Attribute)}
    own = ast.unparse(target)
    if old and calls > old and own in parts and all(call.grad.kind == "on" and call.trained for call in calls):
        names = [part for part in walk(node.value) if isinstance(part, ast.Name) and part.id != own]
        losses = [part.id for part in names if _was_differentiated(m, m.lookup(part.id))]
        if losses:
            _keep(m, m.place(node), own, frozenset(calls - old), losses[0])


def _was_differentiated(m: Machine, value: Value | None) -> bool:
    known = m.store.get(("differentiated",)) or ()
    return value is not None and (_is_loss(value) or any(value is other for other in known))


def added(m: Machine, node: ast.AugAssign | ast.Assign, target: ast.expr, change: Value) -> None:
    """`target += change`, where the target was there before this turn of the loop."""
    change = _weighted(m, node.value, change) if isinstance(node, ast.AugAssign) else change
    calls = graph_of(m, change) if m.loops and isinstance(change, Tensor | Symbol) else frozenset()
    if not calls or not (m.grad.kind == "on" or (m.grad.kind == "unknown" and all(call.trained for call in calls))):
        return
    if isinstance(target, ast.Subscript):
        _added_to_item(m, node, target, change, calls)
    if not isinstance(target, ast.Name | ast.Attribute):
        return
    loop = _loop_of(m, calls)
    if loop is None or (isinstance(target, ast.Name) and _is_of_one_batch(m)):
        return
    name = target.id if isinstance(target, ast.Name) else target.attr
    written = m.store.changed(loop.mark)
    if not any(cell[0] in ("v", "a") and cell[-1] == name for cell in written):
        term = change if isinstance(node, ast.AugAssign) else None
        _keep(m, _at_call(m, node, loop), ast.unparse(target), calls, ast.unparse(node.value), term)


def _loop_of(m: Machine, calls: frozenset[Forward]) -> Loop | None:
    """The loop that makes a new graph in each of its turns: what only takes one graph apart adds none."""
    return next((loop for loop in reversed(m.loops) if any(loop in call.loops for call in calls)), None)


def _added_to_item(
    m: Machine, node: ast.AugAssign | ast.Assign, target: ast.Subscript, change: Value, calls: frozenset[Forward]
) -> None:
    """`totals[key] += loss`, where the dictionary or list was there before the batch, and nobody empties it."""
    loop = _loop_of(m, calls)
    owner = last_name(target.value)
    if loop is None or not owner or any(cell[-1] == owner for cell in m.store.changed(loop.mark)):
        return
    inside = walk(loop.node)
    grown = {each.target for each in inside if isinstance(each, ast.AugAssign)}
    stored = (each for each in inside if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store))
    if not any(last_name(each.value) == owner and each is not target and each not in grown for each in stored):
        _keep(m, _at_call(m, node, loop), ast.unparse(target), calls, ast.unparse(node.value), change)


def _at_call(m: Machine, node: ast.AST, loop: Loop) -> Place:
    """The node's place; in a method of another object, the call that this loop makes of it."""
    around = loop.place
    for outer, inner in zip(reversed(m.frames[:-1]), reversed(m.frames), strict=False):
        symbol = outer.info.qualname if outer.info else ""
        if (outer.module.source.path, symbol) == (around.path, around.symbol):
            if inner.node is not None and inner.bound is not None and inner.bound is not outer.bound:
                return Place(around.path, inner.node, symbol)
    return m.place(node)


def _is_of_one_batch(m: Machine) -> bool:
    """Whether two loops run around this function, as epochs and batches do, and its own runs over parts of a batch.

    `for _ in range(accumulation_steps)` says so itself.
    """
    around = m.loops[-1].place
    loop = m.loops[-1].node
    if isinstance(loop, ast.For) and _PARTS.search(ast.unparse(loop.iter)):
        return True
    outside = [loop for loop in m.loops if (loop.place.path, loop.place.symbol) != (around.path, around.symbol)]
    return len(outside) > 1 and not m.loops[-1].split


def _weighted(m: Machine, node: ast.expr, change: Value) -> Value:
    """The loss itself in `loss * len(batch)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        for side in (node.left, node.right):
            value = m.lookup(side.id) if isinstance(side, ast.Name) else None
            if value is not None and _was_differentiated(m, value):
                return value
    return change


def _is_loss(value: Value) -> bool:
    return isinstance(value, Tensor) and value.kind == "loss"


def put_in(m: Machine, owner: Object, value: Value, node: ast.AST) -> None:
    """`owner.append(value)`, `owner += [value]`: the list was there before this turn, in which the value was made."""
    calls = (graph_of(m, value) or _output(m, value)) if m.loops else frozenset()
    loop = _loop_of(m, calls)
    of_this_step = len(m.loops) > 1 and owner.id >= m.loops[-2].first and _is_of_one_batch(m)
    if loop is not None and owner.id < loop.first and not of_this_step:
        held = (
            node.target
            if isinstance(node, ast.AugAssign)
            else node.func.value
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            else node
        )
        what = ast.unparse(node.args[-1]) if isinstance(node, ast.Call) and node.args else ""
        _keep(m, m.place(node), ast.unparse(held), calls, what, value)


def _keep(m: Machine, place: Place, name: str, calls: frozenset[Forward], what: str, loss: Value | None = None) -> None:
    trained = all(call.trained for call in calls)
    m.facts.training.kept.append(Kept(place, name, calls, what, trained, loss))
