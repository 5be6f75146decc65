"""Metrics of a Lightning module that training and validation both feed, and that validation reports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.sites.guards import conditions, own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites

_STEPS = ("training_step", "validation_step")


class SharedMetric(NamedTuple):
    """Where validation reports the metric, its name, and where training feeds it."""

    logged: Call
    name: str
    fed: Place


def shared_metrics(sites: Sites) -> Iterator[SharedMetric]:
    """`self.log("val_acc", self.acc)`, of the `self.acc` that the training steps are counted in too."""
    for file in sites.mentioning(["torchmetrics"]):
        for cls in file.classes if all(step in file.text for step in _STEPS) else ():
            if not any(name.endswith("LightningModule") for name in cls.libraries) or ".reset(" in cls.text:
                continue
            training, validation = (_reached(cls, step) for step in _STEPS)
            for name, sets in cls.attributes.items():
                made = [a.value for where, a in sets if where.name == "__init__" and isinstance(a.value, ast.Call)]
                if len(sets) != 1 or not made or not _is_metric(sets[0][0], made[0]):
                    continue
                fed = _fed(cls, name, training)
                logged = _logged(cls, name, validation)
                if fed and _fed(cls, name, validation) and logged and _logged(cls, name, training):
                    yield SharedMetric(logged[0], f"self.{name}", fed[0].place)


def _is_metric(init: Function, made: ast.Call) -> bool:
    named = init.file.called(made, init.inner)
    return named.startswith("torchmetrics.") and ".functional." not in named


def _reached(cls: Class, step: str) -> set[Function]:
    """A step, and the methods of the class that it calls."""
    first = cls.find(step)
    found = {first} if first is not None else set[Function]()
    for node in first.all(ast.Call) if first is not None else ():
        method = cls.find(own_attribute(node.func, first))
        if method is not None:
            found.add(method)
    return found


def _fed(cls: Class, name: str, methods: set[Function]) -> list[Call]:
    """`self.acc(scores, labels)` and `self.acc.update(scores, labels)`."""
    calls = [*cls.file.calls(name), *cls.file.calls("update")]
    return [
        call
        for call in calls
        if call.function in methods
        and not conditions(call.context)
        and name in (own_attribute(call.node.func, call.function), own_attribute(call.owner, call.function))
    ]


def _logged(cls: Class, name: str, methods: set[Function]) -> list[Call]:
    """`self.log("acc", self.acc)`: Lightning asks it for its value at the end of the epoch."""
    return [
        call
        for call in cls.file.calls("log")
        if call.function in methods and not conditions(call.context)
        if own_attribute(call.argument("value", 1), call.function) == name
    ]
