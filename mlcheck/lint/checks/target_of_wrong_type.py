"""target-of-wrong-type: a loss that takes probabilities gets whole numbers, or one that takes indices gets one-hots."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.judging import asks_for_loss, losses_of
from mlcheck.lint.sites import OPEN
from mlcheck.lint.sites.data.integers import is_integer, is_one_hot
from mlcheck.lint.values import Symbol, Tensor

LOOKS_AT = "classification loss"
WORDS = ("BCE", "CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
_BINARY = ("torch.nn.BCELoss", "torch.nn.BCEWithLogitsLoss")
_OF_CLASSES = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss")


def check(facts: Facts) -> Iterator[Finding]:
    losses = {loss.place.spot: loss for loss in losses_of(facts, LOOKS_AT, *_BINARY, *_OF_CLASSES)}
    for loss in losses.values():
        call = facts.sites.call_at(loss.place)
        target = call.argument("target", 1) if call is not None else None
        if call is None or target is None or target is OPEN:
            continue
        name = loss.name.rpartition(".")[2]
        if (
            loss.name in _BINARY
            and is_integer(call.file, target, call.context)
            and not asks_for_loss(facts, loss.place, loss)
        ):
            yield Finding(
                f"`{name}` takes floating-point targets, and gets whole numbers: it refuses them",
                loss.place.location,
                help=f"`{ast.unparse(target)}.float()`, or floating-point numbers where they are made",
            )
        elif loss.name in _OF_CLASSES and _is_column(loss):
            yield Finding(
                f"`{name}` takes one class a sample, (N,), and gets a column of them, (N, 1): it refuses them",
                loss.place.location,
                help=f"`{ast.unparse(target)}.squeeze(1)`, or labels without the dimension where they are made",
            )
        elif loss.name in _OF_CLASSES and is_one_hot(call.file, target, call.context):
            indices = loss.name.endswith("NLLLoss")
            if (indices or is_integer(call.file, target, call.context)) and not asks_for_loss(facts, loss.place, loss):
                yield Finding(
                    f"`{name}` takes the numbers of the classes{'' if indices else ', or probabilities'}, "
                    "and gets one-hot integers: it refuses them",
                    loss.place.location,
                    help="give it the labels as they are, without `one_hot`",
                )


def _is_column(loss: Loss) -> bool:
    """Targets (N, 1) beside scores (N, classes), where both shapes are known."""
    given, target = loss.input, loss.target
    if not isinstance(given, Tensor | Symbol) or not isinstance(target, Tensor | Symbol):
        return False
    if given.shape is None or target.shape is None or given.shape.open or target.shape.open:
        return False
    scores, labels = given.shape.dims, target.shape.dims
    if len(scores) != 2 or len(labels) != 2 or labels[1] != 1:
        return False
    return isinstance(scores[1], int) and scores[1] > 1 and scores[0] == labels[0]
