"""no-sync-too-late: `no_sync` is entered after the forward pass, which had decided already."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.ranks import DDP

LOOKS_AT = "distributed model"
WORDS = ("DistributedDataParallel",)
_AFTER_FORWARD = ("backward", "scale", "item", "nullcontext")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(list(facts.sites.calls(DDP)))
    for file in facts.sites.mentioning([".no_sync("]) if facts.sites.seen[LOOKS_AT] else ():
        for call in file.calls("no_sync"):
            forward = _forward_before(call)
            if forward is not None:
                yield Finding(
                    "The gradients are synchronised all the same: this is decided in the forward pass",
                    call.place.location,
                    help="call the model under `no_sync` too, not its backward alone",
                    related=(file.place(forward, call.context).location,),
                )


def _forward_before(call: Call) -> ast.Call | None:
    """The call of the model above `with model.no_sync(): loss.backward()`, where nothing but that stands inside."""
    owner = call.owner
    entered = next(
        (node for node in _withs(call) if any(call.node in walk(item.context_expr) for item in node.items)), None
    )
    if owner is None or entered is None or call.function is None:
        return None
    inside = [node for line in entered.body for node in walk(line) if isinstance(node, ast.Call)]
    names = [last_name(node.func) for node in inside]
    if "backward" not in names or any(name not in _AFTER_FORWARD for name in names):
        return None
    decided = {
        node
        for block in _withs(call)
        if block.lineno < entered.lineno and any("no_sync" in ast.unparse(item.context_expr) for item in block.items)
        for node in walk(block)
    }
    for node in call.function.nodes:
        if isinstance(node, ast.Call) and node.lineno < entered.lineno and ast.unparse(node.func) == ast.unparse(owner):
            return node if node not in decided else None
    return None


def _withs(call: Call) -> list[ast.With]:
    return [node for node in call.function.nodes if isinstance(node, ast.With)] if call.function is not None else []
