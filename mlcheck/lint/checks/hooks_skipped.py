"""hooks-skipped: `forward` is called directly on a module that something hangs hooks on."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.skipped_hooks import skipped

LOOKS_AT = "forward hook"
WORDS = (".forward(",)


def check(facts: Facts) -> Iterator[Finding]:
    for call, hook, keeps_weight in facts.sites.once(skipped):
        owner = ast.unparse(call.owner) if call.owner is not None else "forward"
        consequence = "it computes the weight, which is never trained" if keeps_weight else "it never runs"
        yield Finding(
            f"`{owner}.forward()` skips the hook that hangs on the module: {consequence}",
            call.place.location,
            help=f"call the module itself: `{owner}(...)`",
            related=(hook.place.location,),
        )
