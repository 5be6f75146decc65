"""softmax-before-ce: probabilities reach a loss that applies softmax itself."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.values import Tensor

LOOKS_AT = "loss"


def check(facts: Facts) -> Iterator[Finding]:
    for loss in facts.losses:
        scores = loss.input
        if loss.name == "torch.nn.CrossEntropyLoss" and isinstance(scores, Tensor) and scores.kind == "softmax":
            if scores.place is not None:
                yield Finding(
                    "`softmax` is applied before cross-entropy, which applies it a second time",
                    scores.place.location,
                    help="give the loss the raw logits; take `softmax` only where probabilities are read",
                    related=(loss.place.location,),
                )
