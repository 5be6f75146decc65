"""Trials of Determined that hand gradients to the context without ever asking for a step, or the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import is_attribute
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.project import Sites


def never_asked(sites: Sites) -> Iterator[Finding]:
    """`self.context.backward(loss)` in `train_batch`, in a program that never names `step_optimizer`."""
    if sites.is_named("step_optimizer", 1):
        return
    for cls in _trials(sites):
        own = any(call.cls is cls for call in cls.file.calls("step"))
        for call in () if own else _asked(cls, "backward"):
            yield Finding(
                "The gradients are computed, and nothing steps the optimizer: no weight changes",
                call.place.location,
                help="`self.context.step_optimizer(self.optimizer)`",
            )


def asked_for_nothing(sites: Sites) -> Iterator[Finding]:
    """`self.context.step_optimizer(...)` in `train_batch`, in a program that never names `backward`."""
    if sites.is_named("backward", 1) or sites.is_named("autograd", 1):
        return
    for cls in _trials(sites):
        for call in _asked(cls, "step_optimizer"):
            yield Finding(
                "This step finds no gradients: nothing in the program asks for them",
                call.place.location,
                help="`self.context.backward(loss)` before the step",
            )


def _trials(sites: Sites) -> Iterator[Class]:
    """The trials of which every base is known."""
    for cls in sites.classes:
        trial = any(name.startswith("determined.") and name.endswith("PyTorchTrial") for name in cls.libraries)
        if trial and "?" not in cls.libraries:
            yield cls


def _asked(cls: Class, method: str) -> Iterator[Call]:
    """What `train_batch` asks of `self.context`."""
    for call in cls.file.calls(method):
        func = call.node.func
        own = isinstance(func, ast.Attribute) and is_attribute(func.value, "self", "context")
        if own and call.function is not None and call.function is cls.methods.get("train_batch"):
            yield call
