"""own-similarity-counted: each sample is compared with itself, as if it were one of its negatives."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.layers.similarities import Similarity, similarities
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "matrix of similarities"
WORDS = ("cross_entropy", "CrossEntropyLoss")
_TAKEN_OUT = pattern(r"mask|diag|eye|fill|tri[ul]|inf\b|1e\d|~|!=|delete|\bn - 1|index_select|where")
_PARTNERS = pattern(r"cat\(|roll\(|\^ 1\b|arange\([^()]*,[^()]*\)|arange\([^()]*\) [+]|%")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in facts.sites.once(similarities):
        facts.sites.seen[LOOKS_AT] += found.is_loss
        of_itself = ast.unparse(found.left) == ast.unparse(found.right)
        if found.is_loss and of_itself and _are_two_views(found) and not _is_taken_out(found):
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


def _are_two_views(found: Similarity) -> bool:
    """Whether each row has another for its partner: by what the rows are joined of, or by what the labels are.

    Prototypes that are only to lie apart are compared with themselves on purpose.
    """
    rows = origins(found.product.file, found.left, found.product.context)
    if rows and all(_joins(each) for each in rows):
        return True
    labels = found.taken.argument("target", 1)
    told = origins(found.taken.file, labels, found.taken.context) if isinstance(labels, ast.expr) else []
    return bool(told) and all(_PARTNERS.search(ast.unparse(each.node)) for each in told)


def _joins(rows: Origin) -> bool:
    """`torch.cat([first, second])`, normalised or not."""
    calls = [part for part in ast.walk(rows.node) if isinstance(part, ast.Call)]
    return any(last_name(call.func) in ("cat", "concat", "vstack") for call in calls)
