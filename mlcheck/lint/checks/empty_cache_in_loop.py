"""empty-cache-in-loop: the allocator's memory is given back in every step, and asked for again."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.guards import conditions, on_failure

LOOKS_AT = "emptying of the cache"
WORDS = ("empty_cache",)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.cuda.empty_cache", "torch.mps.empty_cache"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        steps = {id(other.loops[0].node) for other in call.file.calls("backward") if other.loops}
        if on_failure(call.context):
            continue
        if call.loops and id(call.loops[0].node) in steps and not conditions(call.context):
            yield Finding(
                "`empty_cache()` in every training step: the device waits, and the memory is allocated again at once",
                call.place.location,
                help="leave it out, or call it once between phases of different size; it frees nothing that is in use",
            )
