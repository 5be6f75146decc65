"""Losses that the models of Transformers compute themselves: means over the tokens of a batch."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins

_MODEL = pattern(r"transformers\.(?:\w+\.)*\w*(?:For[A-Z]\w+|LMHeadModel)\.from_(?:pretrained|config)")
_AROUND = ("peft.get_peft_model", "torch.compile")
_MOVES = ("to", "cuda", "bfloat16", "float", "train")
_DEPTH = 4


def is_loss_of_library(backward: Call) -> bool:
    """`model(**batch).loss.backward()`, where the text shows that Transformers made the model."""
    loss, context = backward.owner, backward.context
    if loss is None or backward.node.args:
        return False
    loss, context = source(backward.file, loss, context)
    if not isinstance(loss, ast.Attribute) or loss.attr != "loss":
        return False
    asked, context = source(backward.file, loss.value, context)
    if not isinstance(asked, ast.Call) or any(word.arg == "num_items_in_batch" for word in asked.keywords):
        return False
    made = origins(backward.file, asked.func, context)
    return bool(made) and all(_is_model(each, _DEPTH) for each in made)


def _is_model(made: Origin, depth: int) -> bool:
    node = before_methods(made.node, _MOVES)
    plain = Origin(made.file, node, made.context)
    if _MODEL.fullmatch(plain.name):
        return True
    inner = node.args[0] if isinstance(node, ast.Call) and plain.name in _AROUND and node.args else None
    further = origins(made.file, inner, made.context) if inner is not None and depth else []
    return bool(further) and all(_is_model(each, depth - 1) for each in further)
