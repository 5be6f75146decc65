"""log-softmax-into-ce: cross-entropy takes the log-softmax itself; a second one changes nothing."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Tensor

LOOKS_AT = "cross-entropy loss"
WORDS = ("CrossEntropyLoss", "cross_entropy")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.CrossEntropyLoss"):
        scores = loss.input
        if isinstance(scores, Tensor) and scores.kind == "log_softmax":
            if scores.place is not None:
                yield Finding(
                    "`log_softmax` is applied before cross-entropy, which applies it again: redundant, not wrong",
                    scores.place.location,
                    help="use `NLLLoss` here, or give `CrossEntropyLoss` the raw logits",
                    related=(loss.place.location,),
                )
