"""softmax-over-batch: log-probabilities normalised over the samples of a batch reach a loss."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Tensor

LOOKS_AT = "class loss"
_LOSSES = ("torch.nn.NLLLoss", "torch.nn.KLDivLoss", "torch.nn.CrossEntropyLoss")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, *_LOSSES):
        scores = loss.input
        if not isinstance(scores, Tensor) or scores.place is None:
            continue
        if scores.kind not in ("softmax", "log_softmax") or not _is_over_first(scores.place.node):
            continue
        if scores.shape is not None and not scores.shape.open and len(scores.shape.dims) < 2:
            continue
        if loss.name == "torch.nn.NLLLoss" or (scores.shape is not None and len(scores.shape.dims) > 1):
            yield Finding(
                f"`{scores.kind}` over dimension 0 normalises over the samples of the batch, not over the classes",
                scores.place.location,
                help="use `dim=1`, or `dim=-1` where the classes come last",
                related=(loss.place.location,),
            )


def _is_over_first(node: ast.AST) -> bool:
    """`F.softmax(x, 0)`, `x.softmax(dim=0)`, `nn.Softmax(0)`."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = [keyword.value for keyword in node.keywords if keyword.arg == "dim"]
    of_function = isinstance(node.func, ast.Name) or ast.unparse(node.func).startswith(
        ("F.", "torch.", "nn.functional.")
    )
    place = 1 if of_function and not name[:1].isupper() else 0
    given += node.args[place : place + 1]
    return bool(given) and isinstance(given[0], ast.Constant) and given[0].value == 0 and given[0].value is not False
