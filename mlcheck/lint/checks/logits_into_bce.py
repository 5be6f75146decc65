"""logits-into-bce: scores that are no probabilities reach binary cross-entropy."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.values import Tensor

LOOKS_AT = "loss"
_WHAT = {
    "raw": "raw scores",
    "log_softmax": "log-probabilities",
    "log_sigmoid": "log-probabilities",
}


def check(facts: Facts) -> Iterator[Finding]:
    for loss in facts.losses:
        scores = loss.input
        if loss.name != "torch.nn.BCELoss" or not isinstance(scores, Tensor) or scores.kind not in _WHAT:
            continue
        yield Finding(
            f"`BCELoss` gets {_WHAT[scores.kind]}, and it expects probabilities between 0 and 1",
            loss.place.location,
            help="use `BCEWithLogitsLoss` on the raw scores",
            related=(scores.place.location,) if scores.place else (),
        )
