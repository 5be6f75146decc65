"""Metrics that a trainer is handed as functions, calls on each batch of an evaluation, and gives to a running mean."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_attribute, is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function, ProjectModule
from mlcheck.lint.sites.project import Sites

_METRICS = pattern(r"metric|scor")
_AVERAGES = pattern(r"average|counts?\b|/ (?:self\.)?\w*(?:n|num|count|steps|batches)\b")


class Tracked(NamedTuple):
    """The call that gives a batch's value to the mean, and a function that may have computed it."""

    update: Call
    metric: Function


def tracked_metrics(sites: Sites) -> Iterator[Tracked]:
    """`for met in self.metrics: tracker.update(met.__name__, met(output, target))`, of the functions of the project."""
    updates = [call for file in sites.mentioning([".__name__,"]) for call in _updates(file)]
    metrics = list(dict.fromkeys(_handed(sites))) if updates and _averages(sites) else []
    for update in updates:
        for metric in metrics:
            yield Tracked(update, metric)


def _updates(file: File) -> Iterator[Call]:
    for call in file.calls("update"):
        function = call.function
        if function is None or "backward" in function.text or len(call.node.args) != 2:
            continue
        name, value = call.node.args
        metric = value.func if isinstance(value, ast.Call) and len(value.args) == 2 else None
        loops = [loop.node for loop in call.loops if isinstance(loop.node, ast.For)]
        if not isinstance(metric, ast.Name) or len(loops) < 2 or not is_name(loops[0].target, metric.id):
            continue
        if is_attribute(name, metric.id, "__name__") and _METRICS.search(ast.unparse(loops[0].iter)):
            yield call


def _averages(sites: Sites) -> bool:
    """Whether a class of the project takes values by name and divides their sum."""
    classes = (cls for file in sites.mentioning(["def update("]) for cls in file.classes)
    return any({"update", "reset"} <= cls.methods.keys() and _AVERAGES.search(cls.text) for cls in classes)


def _handed(sites: Sites) -> Iterator[Function]:
    """Those in `[getattr(metrics, name) for name in names]` and in `[accuracy, f1]`."""
    for file in sites.mentioning(["etric"]):
        for call in file.calls("getattr"):
            module = file.resolve(call.node.args[0], call.context) if len(call.node.args) == 2 else None
            if isinstance(module, ProjectModule) and _METRICS.search(last_name(call.node.args[0])):
                named = sites.files.get(module.name)
                yield from (each for each in named.functions if _takes_two(each)) if named is not None else ()
        for scope, context in file.scopes():
            for node in file.nodes_in(scope):
                if isinstance(node, ast.List) and len(node.elts) > 1 and _is_of_names(node):
                    found = [file.resolve(each, context) for each in node.elts]
                    if all(isinstance(each, Function) and _takes_two(each) for each in found):
                        yield from (each for each in found if isinstance(each, Function))


def _is_of_names(node: ast.List) -> bool:
    return all(isinstance(each, ast.Name | ast.Attribute) for each in node.elts)


def _takes_two(function: Function) -> bool:
    given = function.node.args
    required = len(given.args) - len(given.defaults)
    return function.cls is None and required == 2 and not any(isinstance(n, ast.Yield) for n in walk(function.node))
