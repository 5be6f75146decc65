"""Losses by name, and the record of each call."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from itertools import pairwise

from mlcheck.lint.facts import Loss, Place
from mlcheck.lint.interpret import certainty
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import expressions
from mlcheck.lint.pytorch import cuts, graph
from mlcheck.lint.values import Args, Kwargs, Object, Select, Tensor, Traces, Value, traces_of

_FUNCTIONS = {
    "torch.nn.functional.cross_entropy": "torch.nn.CrossEntropyLoss",
    "torch.nn.functional.nll_loss": "torch.nn.NLLLoss",
    "torch.nn.functional.nll_loss2d": "torch.nn.NLLLoss",
    "torch.nn.functional.binary_cross_entropy_with_logits": "torch.nn.BCEWithLogitsLoss",
    "torch.binary_cross_entropy_with_logits": "torch.nn.BCEWithLogitsLoss",
    "torch.nn.functional.multilabel_soft_margin_loss": "torch.nn.MultiLabelSoftMarginLoss",
    "torchvision.ops.sigmoid_focal_loss": "torchvision.ops.sigmoid_focal_loss",
    "torch.nn.NLLLoss2d": "torch.nn.NLLLoss",
    "torch.nn.functional.binary_cross_entropy": "torch.nn.BCELoss",
    "torch.nn.functional.ctc_loss": "torch.nn.CTCLoss",
    "torch.nn.functional.kl_div": "torch.nn.KLDivLoss",
    "torch.kl_div": "torch.nn.KLDivLoss",
    "torch.nn.functional.mse_loss": "torch.nn.MSELoss",
    "torch.nn.functional.l1_loss": "torch.nn.L1Loss",
    "torch.nn.functional.smooth_l1_loss": "torch.nn.SmoothL1Loss",
    "torch.nn.functional.huber_loss": "torch.nn.HuberLoss",
}
_AGAIN = {"softmax": "torch.nn.functional.softmax", "log_softmax": "torch.nn.functional.log_softmax"}


def is_loss(name: str) -> bool:
    """Whether a library name is a loss class, or a function that computes a loss."""
    if name in _FUNCTIONS or (name.startswith("torch.nn.") and name.endswith("Loss")):
        return True
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.functional."):
        return last.endswith(("_loss", "cross_entropy")) or last in ("kl_div", "binary_cross_entropy")
    return False


def call(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST, made: Object | None = None) -> Value:
    """The loss tensor; the call is put on record, with the settings of the call or of the criterion `made` before."""
    given = args[0] if args else kwargs.get("input", kwargs.get("inputs"))
    target = args[1] if len(args) > 1 else kwargs.get("target", kwargs.get("targets"))
    given = expressions.resolve(m, given) if given is not None else None
    target = expressions.resolve(m, target) if target is not None else None
    if given is not None:
        settings = dict(made.kwargs if made is not None else kwargs)
        if made.args if made is not None else args[2:]:
            settings["**"] = m.symbol()
        loss = Loss(m.place(node), _FUNCTIONS.get(name, name), given, target, settings, m.store.get(("autocast",)))
        loss.handed = _handed(m, node)
        m.facts.losses.append(loss)
        for option in _of_each_model(m, given):
            m.facts.losses.append(Loss(loss.place, loss.name, option, target, settings, loss.autocast))
    values = [value for value in (given, target) if value is not None]
    traces = traces_of(*values) if given is None else graph.joined(m, traces_of(*values), given)
    return Tensor("loss", m.place(node), "", traces)


def _of_each_model(m: Machine, given: Value) -> list[Tensor]:
    """What each of several models gives, one of which a setting picks, where every one of them gets this loss.

    None where two of them come of one model: then something was done to the scores of some, and it is not known which.
    """
    if not isinstance(given, Select) or not certainty.is_certain(m):
        return []
    options, todo = list[Tensor](), [given.then, given.other]
    while todo:
        value = todo.pop()
        if isinstance(value, Select):
            todo += [value.then, value.other]
        elif isinstance(value, Tensor) and value.traces:
            options.append(value)
        else:
            return []
    known = frozenset().union(*(option.traces for option in options))
    return options if len(known) == sum(len(option.traces) for option in options) else []


def _handed(m: Machine, node: ast.AST) -> Place | None:
    """The call of the function that runs, where `node` gets two of its own arguments, in their order."""
    frame, info = m.frame, m.frame.info
    if info is None or frame.node is None or len(m.frames) < 2 or not isinstance(node, ast.Call):
        return None
    own = [arg.arg for arg in (*info.node.args.posonlyargs, *info.node.args.args)]
    given = [arg.id for arg in node.args[:2] if isinstance(arg, ast.Name) and arg.id in own]
    if len(given) < 2 or own.index(given[0]) >= own.index(given[1]):
        return None
    around = m.frames[-2]
    return Place(around.module.source.path, frame.node, around.info.qualname if around.info else "")


def chosen(m: Machine, key: Hashable, counted: list[int]) -> None:
    """Losses that an entry of a table brought about, under a key that is not known: one of several, or of who knows.

    `counted`: how many losses were on record before the entries, and after each.
    """
    if not isinstance(key, tuple) or key[:1] != ("chosen",):
        return
    known = all(before < after for before, after in pairwise(counted))
    for loss in m.facts.losses[counted[0] : counted[-1]]:
        loss.choice = key[1] if known and loss.choice != "" else ""


def activated(m: Machine, kind: str, given: Value | None, node: ast.AST, split: str, traces: Traces) -> Tensor:
    """What a softmax or sigmoid returns. A second softmax is put on record: it is half of a cross-entropy."""
    if kind in _AGAIN and isinstance(given, Tensor) and given.kind == "softmax":
        m.facts.losses.append(Loss(m.place(node), _AGAIN[kind], given, None))
    return Tensor(kind, m.place(node), split, cuts.ended(m, traces, node) if m.grad.kind == "off" else traces)
