"""sigmoid-before-bcelogits: probabilities reach a loss that applies sigmoid itself."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of, relu_before, scores_of

LOOKS_AT = "logits loss"
WORDS = ("BCEWithLogits", "with_logits", "MultiLabelSoftMargin", "multilabel_soft_margin", "sigmoid_focal")
_WITH_LOGITS = {
    "torch.nn.BCEWithLogitsLoss": "BCEWithLogitsLoss",
    "torch.nn.MultiLabelSoftMarginLoss": "MultiLabelSoftMarginLoss",
    "torchvision.ops.sigmoid_focal_loss": "sigmoid_focal_loss",
}


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, *_WITH_LOGITS):
        scores = scores_of(facts, loss)
        if scores is not None and scores.place is not None and scores.kind in ("sigmoid", "softmax"):
            yield Finding(
                f"`{scores.kind}` is applied before `{_WITH_LOGITS[loss.name]}`, which applies a sigmoid itself",
                scores.place.location,
                help="give the loss the raw logits; apply the sigmoid only where a probability is read",
                related=(loss.place.location,),
            )
        elif (relu := relu_before(facts, loss)) is not None:
            yield Finding(
                f"The scores come from a ReLU, none is below zero: `{_WITH_LOGITS[loss.name]}` takes zero for one half",
                relu.location,
                help="give the loss what the last layer computes, without an activation",
                related=(loss.place.location,),
            )
