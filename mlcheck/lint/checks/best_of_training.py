"""best-of-training: the weights that are kept are those with the best score on the training data."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.evaluation.training_winners import kept_by_training

LOOKS_AT = "choice of the best weights"
WORDS = ("best", "min_", "lowest")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for winner in kept_by_training(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        why = f"in every `{winner.phase}`, training too" if winner.phase else "by the score of the training data"
        guard = f'`if {winner.phase} == "val" and ...`' if winner.phase else "compare the score of the validation data"
        yield Finding(
            f"The best weights are chosen {why}: the most overfitted ones win",
            winner.file.place(winner.compare, winner.context).location,
            help=guard,
        )
