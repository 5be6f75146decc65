"""one-logit-ce: cross-entropy over a single class is always zero."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Symbol, Tensor

LOOKS_AT = "classification loss"
WORDS = ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss"):
        scores = loss.input
        if not isinstance(scores, Tensor | Symbol) or scores.shape is None:
            continue
        dims = scores.shape.dims
        place = -1 if scores.shape.open else 1
        if dims[place:][:1] == (1,):
            yield Finding(
                f"`{loss.name.rpartition('.')[2]}` gets a single score a sample: one class is always certain, "
                "the loss is 0 and nothing is learned",
                loss.place.location,
                help="give the last layer two outputs, or use `BCEWithLogitsLoss` with one",
            )
