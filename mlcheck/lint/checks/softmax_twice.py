"""softmax-twice: the probabilities of one softmax are the logits of another."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Tensor

LOOKS_AT = "second softmax"
WORDS = ("softmax", "Softmax")
_WHY = {
    "torch.nn.functional.softmax": "a second `softmax` makes all classes nearly alike",
    "torch.nn.functional.log_softmax": "`log_softmax` takes them for logits, as cross-entropy does",
    "torch.distributions.Categorical": "`Categorical` takes them for logits, which are its `probs`",
}


def check(facts: Facts) -> Iterator[Finding]:
    for second in losses_of(facts, LOOKS_AT, *_WHY):
        first = second.input
        if not isinstance(first, Tensor) or first.place is None or first.place.node is second.place.node:
            continue  # one softmax, whose result a loop brings back to it: what is read there may be another entry
        if not _differ(first.place.node, second.place.node):
            yield Finding(
                f"`softmax` is applied here, and to its result once more: {_WHY[second.name]}",
                first.place.location,
                help="return raw logits, and apply softmax once, where probabilities are read",
                related=(second.place.location,),
            )


def _differ(first: ast.AST, second: ast.AST) -> bool:
    """Over rows, then over columns: each is a softmax of its own."""
    dims = [_dim(node) for node in (first, second)]
    return None not in dims and dims[0] != dims[1]


def _dim(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "dim"), None)
    given = given or next((arg for arg in reversed(node.args) if isinstance(arg, ast.Constant | ast.UnaryOp)), None)
    return ast.unparse(given) if given is not None else None
