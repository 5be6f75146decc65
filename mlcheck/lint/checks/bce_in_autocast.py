"""bce-in-autocast: binary cross-entropy on probabilities, which autocast refuses."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of

LOOKS_AT = "BCE loss"
WORDS = ("BCELoss", "binary_cross_entropy")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.BCELoss"):
        mode = loss.autocast
        if mode is not None and mode.kind == "on" and mode.device == "cuda":
            yield Finding(
                "`BCELoss` raises under CUDA autocast: in half precision its logarithms are not safe",
                loss.place.location,
                help="use `BCEWithLogitsLoss` on the raw scores",
                related=(mode.place.location,),
            )
