"""teacher-in-train-mode: a model of fixed weights is asked for targets while its dropout and batch norms train."""

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.judging import evaluates
from mlcheck.lint.values import owner_key

LOOKS_AT = "call of a model with loaded weights"
WORDS = ("load_state_dict",)
_FOLLOWS = pattern(
    r"(?:^|[\W_])ema(?:[\W_]|$)|moving|momentum_(?:update|encoder)|lerp_|\.mul_\(|\.mul\(|load_state_dict\([\w.]+\.state_dict\("
    r"|polyak|soft_update",
    re.IGNORECASE,
)
"""Code whose copies of a model follow it: what those draw may be wanted."""


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({forward.place.spot for forward in facts.forwards if forward.restored})
    graded = {key for forward in facts.forwards if forward.grad.kind != "off" for key in forward.touched}
    asked = [
        forward
        for forward in facts.forwards
        if owner_key(forward.module) not in graded and _is_asked_for_targets(forward) and not evaluates(forward)
    ]
    if asked and any(_FOLLOWS.search(file.text) for file in facts.sites.mentioning(["load_state_dict"])):
        return
    for forward in asked:
        yield Finding(
            f"`{forward.name}` gives targets in train mode: dropout and batch norms change them in every step",
            forward.place.location,
            help=f"call `{forward.name}.eval()` before the loop",
        )


def _is_asked_for_targets(forward: Forward) -> bool:
    """Whether a loop that trains another model calls it without gradients, in the mode it was made in."""
    if not any(loop.trains for loop in forward.loops) or forward.grad.kind != "off" or forward.learns:
        return False
    made_so = all(mode.kind == "train" and mode.place is None for mode in forward.modes)
    return forward.restored and forward.moded == "yes" and bool(forward.modes) and made_so
