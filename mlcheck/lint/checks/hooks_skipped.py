"""hooks-skipped: `forward` is called directly on a module that something hangs hooks on."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.skipped_hooks import skipped

LOOKS_AT = "direct call of forward"
WORDS = (".forward(",)


def check(facts: Facts) -> Iterator[Finding]:
    calls = [call for file in facts.sites.mentioning([".forward("]) for call in file.calls("forward")]
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call, hook, keeps_weight in facts.sites.once(skipped):
        owner = ast.unparse(call.owner) if call.owner is not None else "forward"
        consequence = "it computes the weight, which is never trained" if keeps_weight else "it never runs"
        yield Finding(
            f"`{owner}.forward()` skips the hook that hangs on the module: {consequence}",
            call.place.location,
            help=f"call the module itself: `{owner}(...)`",
            related=(hook.place.location,),
        )
