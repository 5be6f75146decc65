"""target-of-wrong-type: a loss that takes probabilities gets whole numbers, or one that takes indices gets one-hots."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.judging import asks_for_loss, losses_of
from mlcheck.lint.shapes.algebra import written
from mlcheck.lint.sites import OPEN, Call
from mlcheck.lint.sites.data.batch_labels import names_samples
from mlcheck.lint.sites.data.integers import is_floating, is_integer, is_one_hot
from mlcheck.lint.values import Shape, Symbol, Tensor

LOOKS_AT = "classification loss"
WORDS = ("BCE", "CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
_BINARY = ("torch.nn.BCELoss", "torch.nn.BCEWithLogitsLoss")
_WITHOUT = "give it the labels as they are, without `one_hot`"
_OF_CLASSES = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss")


def check(facts: Facts) -> Iterator[Finding]:
    losses = {loss.place.spot: loss for loss in losses_of(facts, LOOKS_AT, *_BINARY, *_OF_CLASSES)}
    for loss in losses.values():
        call = facts.sites.call_at(loss.place)
        target = call.argument("target", 1) if call is not None else None
        if call is None or target is None or target is OPEN:
            continue
        of_classes = loss.name in _OF_CLASSES
        told = _of_classes(loss, call, target) if of_classes else _of_binary(loss, call, target)
        if told is not None:
            if not (of_classes and _is_column(loss)) and asks_for_loss(facts, loss.place, loss):
                continue
            name, (what, mended) = loss.name.rpartition(".")[2], told
            yield Finding(f"`{name}` {what}: it refuses them", loss.place.location, help=mended)
        elif of_classes and names_samples(call.file, target, call.context):
            yield Finding(
                "`argmax` over dimension 0 names a sample for each class, not a class for each sample",
                loss.place.location,
                help="`argmax(dim=1)`, of labels that a loader gives as (samples, classes)",
            )


def _of_binary(loss: Loss, call: Call, target: ast.expr) -> tuple[str, str] | None:
    """What is wrong, and how to mend it, with targets that are to be probabilities, one for each score."""
    if is_integer(call.file, target, call.context):
        mended = f"`{ast.unparse(target)}.float()`, or floating-point numbers where they are made"
        return "takes floating-point targets, and gets whole numbers", mended
    if misfit := _ranks_apart(loss):
        mended = "give both one shape: `scores.squeeze(1)`, or `target.unsqueeze(1)`"
        return f"takes targets of its scores' shape, {misfit[0]}, and gets {misfit[1]}", mended
    return None


def _of_classes(loss: Loss, call: Call, target: ast.expr) -> tuple[str, str] | None:
    """What is wrong, and how to mend it, with targets that are to be the numbers of classes."""
    where, text = (call.file, target, call.context), ast.unparse(target)
    if _is_column(loss):
        mended = f"`{text}.squeeze(1)`, or labels without the dimension where they are made"
        return "takes one class a sample, (N,), and gets a column of them, (N, 1)", mended
    if misfit := _misfit(loss):
        mended = "classes are dimension 1 of the scores, which targets do not have: `scores.transpose(1, 2)`"
        return f"takes scores {misfit[0]} with targets of another shape than {misfit[1]}", mended
    if _is_as_deep(loss) and is_integer(*where):
        mended = f"`{text}.squeeze(1)`, or labels without the dimension where they are made"
        return "takes whole numbers without the dimension of the classes, and gets as many dimensions", mended
    if _is_flat(loss) and is_floating(*where):
        mended = f"`{text}.long()`, or whole numbers where they are made"
        return "takes the numbers of the classes as integers, and gets floating-point numbers", mended
    if not is_one_hot(*where):
        return None
    if loss.name.endswith("NLLLoss"):
        return "takes the numbers of the classes, and gets one-hot integers", _WITHOUT
    one_hot = "takes the numbers of the classes, or probabilities, and gets one-hot integers"
    return (one_hot, _WITHOUT) if is_integer(*where) else None


def _shapes(loss: Loss) -> tuple[Shape, Shape] | None:
    """Of the scores and of the targets, where both are known."""
    given, target = loss.input, loss.target
    if not isinstance(given, Tensor | Symbol) or not isinstance(target, Tensor | Symbol):
        return None
    if given.shape is None or target.shape is None or target.shape.open:
        return None
    return given.shape, target.shape


def _ranks_apart(loss: Loss) -> tuple[str, str] | None:
    """(N, 1) beside (N,): the loss does not broadcast."""
    shapes = _shapes(loss)
    if shapes is None or shapes[0].open or {len(shape.dims) for shape in shapes} != {1, 2}:
        return None
    return written(shapes[0]), written(shapes[1])


def _misfit(loss: Loss) -> tuple[str, str] | None:
    """Both shapes, of scores for each position with targets that have sizes which none of those has."""
    shapes = _shapes(loss)
    if shapes is None or shapes[0].open or len(shapes[0].dims) < 3:
        return None
    scores, labels = shapes[0].dims, shapes[1].dims
    if len(scores) == len(labels):
        wanted = scores
    elif len(scores) == len(labels) + 1:
        wanted = (scores[0], *scores[2:])
    else:
        return None
    sizes = [(one, other) for one, other in zip(wanted, labels, strict=True) if isinstance(one, int)]
    apart = any(isinstance(other, int) and one != other for one, other in sizes)
    return (written(shapes[0]), written(shapes[1])) if apart else None


def _is_as_deep(loss: Loss) -> bool:
    """Targets (N, 1, H, W) beside scores (N, classes, H, W)."""
    shapes = _shapes(loss)
    return shapes is not None and not shapes[0].open and len(shapes[0].dims) == len(shapes[1].dims) > 2


def _is_flat(loss: Loss) -> bool:
    """Targets (N,) beside scores (N, classes)."""
    shapes = _shapes(loss)
    return shapes is not None and len(shapes[1].dims) == 1 and not (shapes[0].open or len(shapes[0].dims) < 2)


def _is_column(loss: Loss) -> bool:
    """Targets (N, 1) beside scores (N, classes), where both shapes are known."""
    shapes = _shapes(loss)
    if shapes is None or shapes[0].open:
        return False
    scores, labels = shapes[0].dims, shapes[1].dims
    if len(scores) != 2 or len(labels) != 2 or labels[1] != 1:
        return False
    return isinstance(scores[1], int) and scores[1] > 1 and scores[0] == labels[0]
