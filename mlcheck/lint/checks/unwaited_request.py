"""unwaited-request: a transfer is started, and nothing waits for it."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Context, canonical

LOOKS_AT = "asynchronous transfer"
WORDS = ("isend", "irecv", "async_op")
_SENDS = ("torch.distributed.isend", "torch.distributed.irecv")
_MAY = tuple(
    f"torch.distributed.{name}"
    for name in ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "all_to_all", "barrier")
)


def check(facts: Facts) -> Iterator[Finding]:
    if not any(True for _ in facts.sites.mentioning(["isend", "irecv", "async_op"])):
        return
    calls = list(facts.sites.calls(*_SENDS))
    calls += [call for call in facts.sites.calls(*_MAY) if call.constant("async_op", None, False) is True]
    facts.sites.seen["asynchronous transfer"] = len(calls)
    for call in calls:
        if _is_dropped(call) and not _is_met_at_barrier(call):
            yield Finding(
                f"Nothing waits for `{call.name.rpartition('.')[2]}`: the tensor may be read or reused too early",
                call.place.location,
                help="keep what it returns, and call `wait()` before the tensor is touched",
            )


def _is_dropped(call: Call) -> bool:
    """A statement of its own, or a name that is never read."""
    named = (node for node in walk(call.file.module.source.tree) if isinstance(node, ast.NamedExpr))
    if any(node.value is call.node and node not in call.file.statements for node in named):
        return False
    names = call.file.names_given(call.node)
    if names:
        function = call.function
        text = function.text if function is not None else call.file.text
        kept = any(f".{name}" in text for name in names)
        return not kept and all(len(re.findall(rf"\b{re.escape(name)}\b", text)) == 1 for name in names)
    return call.node in call.file.statements


def _is_met_at_barrier(call: Call) -> bool:
    """Whether the same function ends what it has started at a barrier, which comes after all transfers before it."""
    return any(
        barrier.function is call.function
        and barrier.node.lineno > call.node.lineno
        and barrier.constant("async_op", None, False) is False
        and not any(outer.kind in ("if", "try", "function") for outer in _between(barrier, call))
        for barrier in call.file.calls("barrier")
        if _is_of_torch(barrier)
    )


def _between(barrier: Call, call: Call) -> list[Context]:
    """What is around the barrier and not around the transfer."""
    around = {id(outer.node) for outer in call.context.outwards()}
    return [outer for outer in barrier.context.outwards() if id(outer.node) not in around]


def _is_of_torch(barrier: Call) -> bool:
    named = barrier.file.resolve(barrier.node.func, barrier.context)
    return isinstance(named, str) and canonical(named) == "torch.distributed.barrier"
