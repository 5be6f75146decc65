"""farthest-as-nearest: the neighbours that decide on a label are the ones at the greatest distance."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.evaluation.neighbours import farthest_for_nearest

LOOKS_AT = "neighbours by their distance"
WORDS = ("cdist", "pairwise_distances", "euclidean_distances", ".sum(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in farthest_for_nearest(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{ast.unparse(found.taken.node.func)}` takes the greatest distances: the labels are those of the "
            "samples that are least alike",
            found.taken.place.location,
            help="take the smallest: `topk(k, largest=False)`, `argmin`, `argsort()`",
            related=(found.distances.location,),
        )
