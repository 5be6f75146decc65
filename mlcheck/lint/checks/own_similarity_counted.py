"""own-similarity-counted: each sample is compared with itself, as if it were one of its negatives."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.similarities import Similarity, similarities

LOOKS_AT = "matrix of similarities"
WORDS = ("cross_entropy", "CrossEntropyLoss")
_TAKEN_OUT = pattern(r"mask|diag|eye|fill|tri[ul]|inf\b|1e\d|~|!=|delete|\bn - 1|index_select|where")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in facts.sites.once(similarities):
        facts.sites.seen[LOOKS_AT] += 1
        if found.is_loss and ast.unparse(found.left) == ast.unparse(found.right) and not _is_taken_out(found):
            what = ast.unparse(found.left)
            yield Finding(
                f"This compares each row of `{what}` with itself too: its similarity with itself, the largest there "
                "is, counts as a negative",
                found.product.file.place(found.product.node, found.product.context).location,
                help="`similarity.fill_diagonal_(float('-inf'))` before the loss",
                related=(found.taken.place.location,),
            )


def _is_taken_out(found: Similarity) -> bool:
    """Whether a function on the way does anything that may leave the diagonal out, or may start from other labels."""
    around = found.product.file.function_around(found.product.context), found.taken.function
    return any(function is None or _TAKEN_OUT.search(ast.unparse(function.node)) for function in around)
