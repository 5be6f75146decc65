"""logits-into-bce: scores that are no probabilities reach binary cross-entropy."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Tensor

LOOKS_AT = "BCE loss"
WORDS = ("BCELoss", "binary_cross_entropy")
_WHAT = {
    "raw": "raw scores",
    "clamped": "raw scores, of which those below 0 and above 1 are cut off and learn nothing",
    "log_softmax": "log-probabilities",
    "log_sigmoid": "log-probabilities",
    "tanh": "numbers between -1 and 1",
}


def check(facts: Facts) -> Iterator[Finding]:
    # One call of whichever the model asks for: `loss = F.binary_cross_entropy if probs else ..._with_logits`.
    either = {loss.place.spot for loss in facts.losses if loss.name == "torch.nn.BCEWithLogitsLoss"}
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.BCELoss"):
        scores = loss.input
        if not isinstance(scores, Tensor) or scores.kind not in _WHAT or loss.place.spot in either:
            continue
        yield Finding(
            f"`BCELoss` gets {_WHAT[scores.kind]}, and it expects probabilities between 0 and 1",
            loss.place.location,
            help="use `BCEWithLogitsLoss` on the raw scores",
            related=(scores.place.location,) if scores.place else (),
        )
