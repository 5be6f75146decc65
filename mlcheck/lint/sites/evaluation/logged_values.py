"""What the evaluation steps of a Lightning module log: the numbers of single batches, which Lightning averages."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.project import Sites

_NUMBERS = ("item", "detach", "cpu")
_STEPS = ("validation_step", "test_step")
_OBJECTS = (
    "F1Score",
    "FBetaScore",
    "AUROC",
    "AveragePrecision",
    "MatthewsCorrCoef",
    "CohenKappa",
    "R2Score",
    "PearsonCorrCoef",
    "SpearmanCorrCoef",
    "Precision",
    "Recall",
    "JaccardIndex",
)
_MICRO = ("F1Score", "FBetaScore", "Precision", "Recall")
"""Unless told otherwise they count all classes together, which is a mean over samples."""


class Logged(NamedTuple):
    """The call of `self.log`, the call that computes the value of the batch, and the class of torchmetrics, if any."""

    log: Call
    made: ast.Call
    metric: str


def logged_in_evaluation(sites: Sites) -> Iterator[Logged]:
    """`self.log("f1", self.f1(preds, labels))`: not `self.log("f1", self.f1)`, which is computed of all batches."""
    for file in sites.mentioning(_STEPS):
        for call in file.calls("log"):
            function, cls = call.function, call.cls
            if function is None or cls is None or function.name not in _STEPS:
                continue
            if own_attribute(call.node.func, function) != "log" or call.constant("on_epoch", None, True) is not True:
                continue
            if call.argument("reduce_fx") is not None or not any(n.endswith("LightningModule") for n in cls.libraries):
                continue
            value = call.argument("value", 1)
            made = source(file, value, call.context)[0] if value is not None else None
            made = before_methods(made, _NUMBERS) if made is not None else None
            if isinstance(made, ast.Call):
                yield Logged(call, made, _metric(cls, own_attribute(made.func, function)))


def _metric(cls: Class, name: str) -> str:
    """The class of torchmetrics that an attribute is of, where that is no mean over samples and nobody computes it."""
    sets = cls.attribute(name) if name else []
    named = sets[0][0].file.called(sets[0][1].value, sets[0][1].context) if len(sets) == 1 else ""
    if not named.startswith("torchmetrics.") or f"{name}.compute(" in cls.text:
        return ""
    last, where = named.rpartition(".")[2], sets[0][0]
    made = sets[0][1].value
    if not last.endswith(_OBJECTS) or not isinstance(made, ast.Call):
        return ""
    call = Call(where.file, made, sets[0][1].context)
    if last in _MICRO and call.constant("task") != "binary" and call.argument("average") is None:
        return ""
    return last if call.constant("average") in (None, "macro", "weighted") else ""
