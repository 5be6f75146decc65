"""softmax-before-ce: probabilities reach a loss that applies softmax itself."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of, relu_before, scores_of

LOOKS_AT = "cross-entropy loss"
WORDS = ("CrossEntropyLoss", "cross_entropy")
_WHY = {
    "softmax": "`softmax` is applied before cross-entropy, which applies it a second time",
    "sigmoid": "`sigmoid` is applied before cross-entropy, which takes its results for logits: none is above 1",
}


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.CrossEntropyLoss"):
        scores = scores_of(facts, loss)
        if scores is not None and scores.place is not None and scores.kind in _WHY:
            yield Finding(
                _WHY[scores.kind],
                scores.place.location,
                help="give the loss the raw logits; take `softmax` only where probabilities are read",
                related=(loss.place.location,),
            )
        elif (relu := relu_before(facts, loss)) is not None:
            yield Finding(
                "The scores come from a ReLU: none is below zero, and cross-entropy wants those of wrong classes to be",
                relu.location,
                help="give the loss what the last layer computes, without an activation",
                related=(loss.place.location,),
            )
