"""Layers and modules whose weights begin as they are drawn, and are to be learned."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.layers.modules import is_module, text_of
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.scopes import AttributeSet

_LAYERS = ("Linear", "Conv", "Sequential", "LSTM", "GRU", "RNN", "Embedding", "ModuleList")


def says_frozen(text: str) -> bool:
    return any(word in text for word in ("requires_grad", "no_grad", "load", "pretrained"))


def is_layer(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    return name.rpartition(".")[2].startswith(_LAYERS) and name.startswith(("nn.", "torch.nn."))


def is_new_module(cls: Class, made: AttributeSet) -> bool:
    """`self.encoder = Encoder(64)`, of a class of the project that says nothing of weights from elsewhere."""
    named = cls.file.resolve(made.value.func, made.context) if isinstance(made.value, ast.Call) else None
    return isinstance(named, Class) and is_module(named) and not says_frozen(text_of(named))
