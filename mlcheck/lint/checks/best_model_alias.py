"""best-model-alias: the best model is the model itself under a second name."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.rereading import read_later
from mlcheck.lint.sites.weights.listed import listed

LOOKS_AT = "kept model"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(facts.training.snapshots) + sum(1 for _ in facts.sites.calls("copy.deepcopy"))
    for snapshot in facts.training.snapshots:
        if snapshot.kind == "model" and snapshot.trained_on and read_later(facts, snapshot):
            yield Finding(
                f"`{ast.unparse(snapshot.target)}` is another reference to the model being trained, not a copy of it",
                snapshot.place.location,
                help="keep a copy: `copy.deepcopy(model)`",
            )
    for kept in listed(facts.sites):
        if not kept.is_state:
            yield Finding(
                f"Every entry of this list is `{kept.name}` itself, as it is trained on: no copy of how it was",
                kept.place.location,
                help=f"keep a copy: `copy.deepcopy({kept.name})`",
            )
