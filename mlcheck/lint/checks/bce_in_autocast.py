"""bce-in-autocast: binary cross-entropy on probabilities, which autocast refuses."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "loss"


def check(facts: Facts) -> Iterator[Finding]:
    for loss in facts.losses:
        mode = loss.autocast
        if loss.name == "torch.nn.BCELoss" and mode is not None and mode.kind == "on" and mode.device == "cuda":
            yield Finding(
                "`BCELoss` raises under CUDA autocast: in half precision its logarithms are not safe",
                loss.place.location,
                help="use `BCEWithLogitsLoss` on the raw scores",
                related=(mode.place.location,),
            )
