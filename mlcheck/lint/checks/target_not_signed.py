"""target-not-signed: a loss that takes +1 and -1 gets targets of 1 and 0."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import OPEN
from mlcheck.lint.sites.data.zero_one import is_zero_one

LOOKS_AT = "loss of signed targets"
WORDS = ("MarginLoss", "EmbeddingLoss", "MarginRankingLoss", "margin_loss", "embedding_loss", "ranking_loss")
_TARGETS = {
    "soft_margin_loss": 1,
    "hinge_embedding_loss": 1,
    "cosine_embedding_loss": 2,
    "margin_ranking_loss": 2,
    "SoftMarginLoss": 1,
    "HingeEmbeddingLoss": 1,
    "CosineEmbeddingLoss": 2,
    "MarginRankingLoss": 2,
    "multilabel_margin_loss": 1,
    "MultiLabelMarginLoss": 1,
}
_INDICES = ("multilabel_margin_loss", "MultiLabelMarginLoss")


def check(facts: Facts) -> Iterator[Finding]:
    losses = {loss.place.spot: loss for loss in facts.losses if loss.name.rpartition(".")[2] in _TARGETS}
    facts.sites.seen[LOOKS_AT] = len(losses)
    for loss in losses.values():
        name = loss.name.rpartition(".")[2]
        call = facts.sites.call_at(loss.place)
        target = call.argument("target", _TARGETS[name]) if call is not None else None
        if call is None or target is None or target is OPEN or not is_zero_one(call.file, target, call.context):
            continue
        if name in _INDICES:
            yield Finding(
                f"`{name}` takes the numbers of the classes, with -1 behind the last, and gets a 1 or 0 for each "
                "class: it learns of the classes 0 and 1 alone",
                loss.place.location,
                help="`MultiLabelSoftMarginLoss` or `BCEWithLogitsLoss` take a 1 or 0 for each class",
            )
        else:
            yield Finding(
                f"`{name}` takes targets of 1 and -1, and gets 1 and 0: where they are 0 it teaches nothing, "
                "or the wrong thing",
                loss.place.location,
                help=f"`2 * {ast.unparse(target)} - 1`",
            )
