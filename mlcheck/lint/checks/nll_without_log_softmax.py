"""nll-without-log-softmax: probabilities or raw scores reach a loss that expects log-probabilities."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Tensor

LOOKS_AT = "NLL loss"


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.NLLLoss"):
        scores = loss.input
        if not isinstance(scores, Tensor) or scores.place is None:
            continue
        if scores.kind in ("softmax", "sigmoid"):
            yield Finding(
                f"`{scores.kind}` gives probabilities, and `NLLLoss` expects log-probabilities",
                scores.place.location,
                help="use `log_softmax` here, or `CrossEntropyLoss` on the raw logits",
                related=(loss.place.location,),
            )
        elif scores.kind == "raw":
            yield Finding(
                "`NLLLoss` gets raw scores, and it expects log-probabilities",
                loss.place.location,
                help="apply `log_softmax` to the scores, or use `CrossEntropyLoss`",
                related=(scores.place.location,),
            )
