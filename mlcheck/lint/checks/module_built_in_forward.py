"""module-built-in-forward: a layer with weights or a mode that is new in every forward pass."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.guards import conditions, in_forward
from mlcheck.lint.sites.modules import CONTAINERS, LEARNING, holds_parameters

LOOKS_AT = "layer"
_MODED = frozenset(f"torch.nn.{name}" for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"))
_MOVES = ("to", "cuda", "double", "float", "half")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*sorted(LEARNING | _MODED), "torch.nn.Sequential"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        if in_forward(call) is None or not _is_used_here(call):
            continue
        if conditions(call.context) and not _is_applied_at_once(call):
            continue
        if call.name in CONTAINERS and not holds_parameters(call.file, call.node, call.context):
            continue
        layer = f"nn.{call.name.rpartition('.')[2]}"
        if call.name in LEARNING | CONTAINERS:
            message = f"`{layer}` is made anew in every forward pass: its weights are random and never trained"
        elif call.constant("p", 0, default=0.5) in (0, 0.0):
            continue
        else:
            message = f"`{layer}` is made anew in every forward pass, in train mode: it drops in evaluation too"
        yield Finding(message, call.place.location, help="make it in `__init__` and keep it as an attribute")


def _is_applied_at_once(call: Call) -> bool:
    """`nn.Linear(3, 4)(x)`: nobody keeps it for the next time."""
    assert call.function is not None
    return any(
        isinstance(node, ast.Call) and node is not call.node and before_methods(node.func, _MOVES) is call.node
        for node in walk(call.function.node)
    )


def _is_used_here(call: Call) -> bool:
    """Called at once, or held by a local name that is only ever called, or by an attribute that is called."""
    function = call.function
    assert function is not None
    for node in walk(function.node):
        if isinstance(node, ast.Call) and before_methods(node.func, _MOVES) is call.node and node is not call.node:
            return True
        if isinstance(node, ast.Assign) and before_methods(node.value, _MOVES) is call.node and len(node.targets) == 1:
            target = ast.unparse(node.targets[0])
            uses = [n for n in walk(function.node) if isinstance(n, ast.expr) and _reads(n, target)]
            called = {id(n.func) for n in walk(function.node) if isinstance(n, ast.Call)}
            moved = {id(n.value) for n in walk(function.node) if isinstance(n, ast.Attribute) and n.attr in _MOVES}
            return any(id(n) in called for n in uses) and all(id(n) in called | moved for n in uses)
    return False


def _reads(node: ast.expr, target: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) == target
