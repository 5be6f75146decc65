"""Trials of Determined that hand their gradients to the context, and never ask it for a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import is_attribute
from mlcheck.lint.sites.project import Sites


def never_asked(sites: Sites) -> Iterator[Finding]:
    """`self.context.backward(loss)` in `train_batch`, in a program that never names `step_optimizer`."""
    if sites.is_named("step_optimizer", 1):
        return
    for cls in sites.classes:
        step = cls.methods.get("train_batch")
        trial = any(name.startswith("determined.") and name.endswith("PyTorchTrial") for name in cls.libraries)
        if step is None or not trial or "?" in cls.libraries:
            continue
        own = any(call.cls is cls for call in cls.file.calls("step"))
        for call in () if own else cls.file.calls("backward"):
            func = call.node.func
            if (
                call.function is step
                and isinstance(func, ast.Attribute)
                and is_attribute(func.value, "self", "context")
            ):
                yield Finding(
                    "The gradients are computed, and nothing steps the optimizer: no weight changes",
                    call.place.location,
                    help="`self.context.step_optimizer(self.optimizer)`",
                )
