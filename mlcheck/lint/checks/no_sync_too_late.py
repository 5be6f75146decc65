"""no-sync-too-late: `no_sync` is entered after the forward pass, which had decided already."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.entered_blocks import Block, blocks_entering
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
    owner = ast.unparse(call.owner) if call.owner is not None else ""
    for block in blocks_entering(call) if owner else ():
        inside = [node for line in block.node.body for node in walk(line) if isinstance(node, ast.Call)]
        names = [last_name(node.func) for node in inside]
        if "backward" not in names or any(name not in _AFTER_FORWARD for name in names):
            continue
        if block.function is not call.function and not owner.startswith("self."):
            continue  # by another name there
        decided = set(_decided(call, block))
        for node in block.around:
            if isinstance(node, ast.Call) and node.lineno < block.node.lineno:
                if ast.unparse(node.func) == owner:
                    return node if node not in decided else None
    return None


def _decided(call: Call, entered: Block) -> Iterator[ast.AST]:
    """What stands under `no_sync` above that block."""
    for other in call.file.calls("no_sync"):
        for block in blocks_entering(other):
            if block.function is entered.function and block.node.lineno < entered.node.lineno:
                yield from walk(block.node)
