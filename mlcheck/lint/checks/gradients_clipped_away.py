"""gradients-clipped-away: the limit is zero, and so is every gradient afterwards."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.zero_limits import zero_limits

LOOKS_AT = "gradient clipping"
WORDS = ("clip_grad_",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.mentioning(WORDS))
    for call, limit in zero_limits(facts.sites):
        what = "0" if isinstance(limit, ast.Constant) else f"`{ast.unparse(limit)}`, which is 0 if nobody sets it,"
        yield Finding(
            f"Clipping at {what} makes every gradient zero: the step moves nothing",
            call.place.location,
            help='`max_norm=float("inf")` measures the norm alone; to clip only where it is asked for, test the limit',
        )
