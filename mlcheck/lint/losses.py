"""Losses by name, and the record of each call."""

from __future__ import annotations

import ast

from mlcheck.lint import expressions
from mlcheck.lint.facts import Loss
from mlcheck.lint.machine import Machine
from mlcheck.lint.values import Tensor, Value, traces_of

_FUNCTIONS = {
    "torch.nn.functional.cross_entropy": "torch.nn.CrossEntropyLoss",
    "torch.nn.functional.nll_loss": "torch.nn.NLLLoss",
    "torch.nn.functional.nll_loss2d": "torch.nn.NLLLoss",
    "torch.nn.functional.binary_cross_entropy_with_logits": "torch.nn.BCEWithLogitsLoss",
    "torch.binary_cross_entropy_with_logits": "torch.nn.BCEWithLogitsLoss",
    "torch.nn.functional.multilabel_soft_margin_loss": "torch.nn.MultiLabelSoftMarginLoss",
    "torchvision.ops.sigmoid_focal_loss": "torchvision.ops.sigmoid_focal_loss",
    "torch.nn.NLLLoss2d": "torch.nn.NLLLoss",
}


def is_loss(name: str) -> bool:
    """Whether a library name is a loss class, or a function that computes a loss."""
    if name in _FUNCTIONS or (name.startswith("torch.nn.") and name.endswith("Loss")):
        return True
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.functional."):
        return last.endswith(("_loss", "cross_entropy")) or last in ("kl_div", "binary_cross_entropy")
    return False


def call(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """The loss tensor; the call is put on record."""
    given = args[0] if args else kwargs.get("input", kwargs.get("inputs"))
    target = args[1] if len(args) > 1 else kwargs.get("target", kwargs.get("targets"))
    given = expressions.resolve(m, given) if given is not None else None
    if given is not None:
        m.facts.losses.append(Loss(m.place(node), _FUNCTIONS.get(name, name), given, target))
    values = [value for value in (given, target) if value is not None]
    return Tensor("loss", m.place(node), "", traces_of(*values))
