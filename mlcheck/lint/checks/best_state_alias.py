"""best-state-alias: the best weights are kept as a state dict that changes with the model."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.training import read_later

LOOKS_AT = "optimizer step"


def check(facts: Facts) -> Iterator[Finding]:
    for snapshot in facts.training.snapshots:
        if snapshot.kind == "state" and snapshot.trained_on and read_later(facts, snapshot):
            yield Finding(
                "`state_dict()` shares its memory with the model: what is kept here changes with every further step",
                snapshot.place.location,
                help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
            )
