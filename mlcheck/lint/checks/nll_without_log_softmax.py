"""nll-without-log-softmax: probabilities or raw scores reach a loss that expects log-probabilities."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Tensor

LOOKS_AT = "NLL loss"
WORDS = ("NLLLoss", "nll_loss", "CTCLoss", "ctc_loss")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.NLLLoss", "torch.nn.CTCLoss"):
        scores, name = loss.input, loss.name.rpartition(".")[2]
        instead = "" if name == "CTCLoss" else ", or `CrossEntropyLoss` on the raw logits"
        if not isinstance(scores, Tensor) or scores.place is None:
            continue
        if scores.kind in ("softmax", "sigmoid"):
            yield Finding(
                f"`{scores.kind}` gives probabilities, and `{name}` expects log-probabilities",
                scores.place.location,
                help=f"use `log_softmax` here{instead}",
                related=(loss.place.location,),
            )
        elif scores.kind == "raw":
            yield Finding(
                f"`{name}` gets raw scores, and it expects log-probabilities",
                loss.place.location,
                help=f"apply `log_softmax` to the scores{instead}",
                related=(scores.place.location,),
            )
