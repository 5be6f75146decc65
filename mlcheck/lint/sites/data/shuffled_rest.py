"""Loaders that shuffle their data unless it is for training."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.data.loaders import Loader
from mlcheck.lint.sites.model import OPEN, Call

_FOR_TRAINING = pattern(r"(?:is_|for_)?train(?:ing)?")
_FOR_EVALUATION = ("val", "valid", "validation", "test", "eval", "dev")


def shuffles_the_rest(loader: Loader) -> bool:
    """`shuffle=not is_train`, `shuffle=split != "train"`, `shuffle=split == "test"`, and nobody else's order."""
    given = loader.call.argument("shuffle", 2)
    if given is None or given is OPEN or loader.owns_order:
        return False
    node, context = loader.call.file.value(given, loader.call.context)
    negative = False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        negative, (node, context) = True, loader.call.file.value(node.operand, context)
    if isinstance(node, ast.Name | ast.Attribute):
        return negative and _FOR_TRAINING.fullmatch(ast.unparse(node).removeprefix("self.")) is not None
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    word = node.comparators[0]
    if not isinstance(word, ast.Constant):
        return False
    if word.value in _FOR_EVALUATION and re.search("['\"]train", loader.call.file.text):
        return isinstance(node.ops[0], ast.NotEq if negative else ast.Eq)
    return word.value in ("train", "training") and isinstance(node.ops[0], ast.Eq if negative else ast.NotEq)


def draws_the_rest(loader: Loader) -> bool:
    """`sampler=SequentialSampler(data) if is_train else RandomSampler(data)`, inside of a sampler of batches too."""
    given, context = loader.call.argument("sampler", 3), loader.call.context
    batches = loader.call.argument("batch_sampler", 4)
    if batches is not None and batches is not OPEN:
        made, context = loader.call.file.value(batches, context)
        if not isinstance(made, ast.Call) or loader.call.file.called(made, context) != "torch.utils.data.BatchSampler":
            return False
        given = Call(loader.call.file, made, context).argument("sampler", 0)
    if given is None or given is OPEN:
        return False
    node, context = loader.call.file.value(given, context)
    if not isinstance(node, ast.IfExp):
        return False
    asked, arms = node.test, [node.body, node.orelse]
    if isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not):
        asked, arms = asked.operand, arms[::-1]
    called = [loader.call.file.called(arm, context).rpartition(".")[2] for arm in arms]
    named = _FOR_TRAINING.fullmatch(ast.unparse(asked).removeprefix("self.")) is not None
    return named and called == ["SequentialSampler", "RandomSampler"]
