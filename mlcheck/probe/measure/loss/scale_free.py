"""Optimizers whose steps are the same when the loss is multiplied by a number."""

from __future__ import annotations

SCALE_FREE = frozenset(
    ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "Rprop"]
)  # each divides by what the gradients came to so far
