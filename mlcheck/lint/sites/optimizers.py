"""The optimizers of a program, by the calls that make them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.blocks import blocks
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites

OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax")
SCHEDULERS = (
    *("StepLR", "MultiStepLR", "LambdaLR", "ExponentialLR", "LinearLR", "PolynomialLR", "OneCycleLR", "CyclicLR"),
    *("CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ReduceLROnPlateau", "ConstantLR", "MultiplicativeLR"),
)


def optimizers(sites: Sites) -> tuple[Call, ...]:
    """All calls that make one of torch's; `sites.once(optimizers)`."""
    return tuple(sites.calls(*(f"torch.optim.{name}" for name in OPTIMIZERS)))


def around(call: Call) -> ast.AST:
    """The function that a call stands in, or the whole file."""
    return call.function.node if call.function is not None else call.file.module.source.tree


def following(call: Call) -> Iterator[ast.stmt]:
    """The statements that come after that of the call, in the same block."""
    todo = [around(call)]
    for node in todo:
        for block in blocks(node):
            todo += block
            for index, statement in enumerate(block):
                if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is call.node:
                    yield from block[index + 1 :]
                    return
