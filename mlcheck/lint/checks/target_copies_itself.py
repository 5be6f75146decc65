"""target-copies-itself: a target network or an average of weights is updated from itself."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "copied weight"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(
        len(file.calls("load_state_dict", "copy_", "lerp_", "mul_")) for file in facts.sites.mentioning(["torch"])
    )
    for copy in facts.training.self_copies:
        yield Finding(
            "Both sides are the weights of one and the same module: this changes nothing",
            copy.place.location,
            help="take the weights from the model that is trained, and make the other with `copy.deepcopy`",
        )
