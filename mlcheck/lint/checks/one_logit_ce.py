"""one-logit-ce: cross-entropy over a single class is always zero."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.values import Symbol, Tensor

LOOKS_AT = "classification loss"
_SETTINGS = ("config", "cfg", "args", "hparams", "opt", "options", "params")
WORDS = ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss"):
        scores = loss.input
        if not isinstance(scores, Tensor | Symbol) or scores.shape is None:
            continue
        dims = scores.shape.dims
        place = -1 if scores.shape.open else 1
        if dims[place:][:1] == (1,) and not _is_asked_for(facts, loss.place):
            yield Finding(
                f"`{loss.name.rpartition('.')[2]}` gets a single score a sample: one class is always certain, "
                "the loss is 0 and nothing is learned",
                loss.place.location,
                help="give the last layer two outputs, or use `BCEWithLogitsLoss` with one",
            )


def _is_asked_for(facts: Facts, place: Place) -> bool:
    """Whether it stands under a test of some shape, `if scores.shape[1] > 1:`, or of a setting: `if cfg.classes:`."""
    file = facts.sites.at(place.path)
    tree = file.module.source.tree if file is not None else ast.Module([], [])
    branches = [node for node in walk(tree) if isinstance(node, ast.If) and _may_know(node.test)]
    return any(part is place.node for branch in branches for line in branch.body for part in walk(line))


def _may_know(test: ast.expr) -> bool:
    """Whether the test may tell whether there are classes to choose from."""
    read = [part for part in walk(test) if isinstance(part, ast.Attribute)]
    asks = any(last_name(part) in ("shape", "size") for part in walk(test))
    return asks or any(last_name(part.value) in _SETTINGS for part in read)
