"""Gradient accumulation: tests that count batches, and what they decide."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator

from mlcheck.lint.facts import Grads
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import assigned, walk
from mlcheck.lint.training import Choice

Spot = tuple[str, int, int]
_LATEST = 16


def decided(m: Machine, test: ast.expr, key: Hashable, holds: bool) -> None:
    """Fresh gradients remember how a test that counts batches was answered after them."""
    if m.counting.get(test) is False and not counts(key):
        return
    optimizers = [one for one in m.store.get(("optimizers",)) or () if _has_fresh(m, one)]
    if not optimizers or not (counts(key) or _compares_counter(m, test)):
        return
    for optimizer in optimizers:
        found: frozenset[Grads] = m.store.get(("grads", optimizer))
        choice = Choice((m.place(test).path, test.lineno, test.col_offset), holds, not _asks_more(test, key))
        marked = (
            grads._replace(choice=choice._replace(earlier=_of_step(m, grads.choice, choice.spot)))
            if grads.kind == "fresh"
            else grads
            for grads in found
        )
        m.store.set(("grads", optimizer), frozenset(marked))


def _of_step(m: Machine, choice: Choice | None, spot: Spot) -> Choice | None:
    """What of these answers was given to another test, and one that lets the optimizer step."""
    latest = m.facts.steps[-_LATEST:]
    while choice is not None:
        answered = choice._replace(earlier=None)
        choice = choice.earlier
        stepping = (grads.choice for step in latest for grads in step.grads)
        if answered.spot != spot and any(each is not None and each.spot == answered.spot for each in stepping):
            return answered
    return None


def _has_fresh(m: Machine, optimizer: Hashable) -> bool:
    found: frozenset[Grads] = m.store.get(("grads", optimizer)) or frozenset()
    return any(grads.kind == "fresh" for grads in found)


def counts(key: Hashable, depth: int = 8) -> bool:
    """Whether a condition takes a remainder, as `(i + 1) % n == 0` does."""
    if not isinstance(key, tuple) or depth == 0:
        return False
    return key[:2] == ("bin", "Mod") or any(isinstance(part, tuple) and counts(part, depth - 1) for part in key)


def _asks_more(test: ast.expr, key: Hashable) -> bool:
    """Whether something else has a say: `... or i + 1 == len(loader)`."""
    while isinstance(key, tuple) and key and key[0] == "not":
        key = key[1]
    return any(isinstance(node, ast.BoolOp) for node in walk(test)) or (
        isinstance(key, tuple) and bool(key) and key[0] in ("and", "or", "truth")
    )


def _compares_counter(m: Machine, test: ast.expr) -> bool:
    """Whether the test compares something that the same function counts up: `pending += 1`."""
    if test not in m.counting:
        m.counting[test] = _is_of_counter(m, test)
    return m.counting[test]


def _is_of_counter(m: Machine, test: ast.expr) -> bool:
    compared = {ast.unparse(side) for node in walk(test) if isinstance(node, ast.Compare) for side in _sides(node)}
    if not compared:
        return False
    within = m.frame.info.node if m.frame.info is not None else m.frame.module.source.tree
    if within not in m.counters:
        m.counters[within] = frozenset(_counted(within))
    return not compared.isdisjoint(m.counters[within])


def _sides(node: ast.Compare) -> Iterator[ast.expr]:
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.GtE | ast.Lt | ast.NotEq):
        yield from (side for side in (node.left, *node.comparators) if isinstance(side, ast.Name | ast.Attribute))


def _counted(function: ast.AST) -> Iterator[str]:
    """What is counted up by one and set back to nothing."""
    zeroed: set[str] = set()
    for node in walk(function):
        if isinstance(node, ast.Assign):
            zeroed.update(ast.unparse(target) for target, value in assigned(node) if ast.unparse(value) == "0")
    for node in walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant):
            if node.value.value == 1 and (name := ast.unparse(node.target)) in zeroed:
                yield name
