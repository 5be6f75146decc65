"""empty-cache-in-loop: the allocator's memory is given back in every step, and asked for again."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.guards import conditions, on_failure
from mlcheck.lint.sites.origins import callers

LOOKS_AT = "emptying of the cache"
WORDS = ("empty_cache",)
_DEPTH = 3


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.cuda.empty_cache", "torch.mps.empty_cache"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    files = list(facts.sites.mentioning([".backward("])) if calls else []
    steps = {id(turn) for file in files for backward in file.calls("backward") for turn in _turns(backward)}
    for call in calls:
        emptied = (id(turn) for turn in _turns(call, always=True))
        if not on_failure(call.context) and any(turn in steps for turn in emptied):
            yield Finding(
                "`empty_cache()` in every training step: the device waits, and the memory is allocated again at once",
                call.place.location,
                help="leave it out, or call it once between phases of different size; it frees nothing that is in use",
            )


def _turns(call: Call, always: bool = False, depth: int = _DEPTH) -> Iterator[ast.AST]:
    """The loop that a call stands right in; where it stands in none, that of the calls of its function.

    `always`: only where nothing asks whether to call it.
    """
    if always and conditions(call.context):
        return
    if call.loops:
        yield call.loops[0].node
    elif call.function is not None and depth:
        for outer in callers(call.file.sites, call.function):
            yield from _turns(outer, always, depth - 1)
