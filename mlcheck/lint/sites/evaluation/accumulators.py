"""Metric objects of torchmetrics that add up from epoch to epoch, as nothing resets them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, last_name, loads, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_MOVES = ("to", "cuda")
_TURNS = (ast.For, ast.comprehension)
_RENEWS = (".reset(", ".clone(", "MetricTracker", "deepcopy(")


class Unreset(NamedTuple):
    """Where a metric is asked for its value in every epoch, its name, and where it was made or handed in, once."""

    compute: Call
    name: str
    made: Place


def never_reset(sites: Sites) -> Iterator[Unreset]:
    """`acc.update(...)` for each batch and `acc.compute()` in each epoch, of a metric that lives through them all."""
    files = list(sites.mentioning(["torchmetrics"]))
    renewed = any(word in file.text for file in sites.files.values() for word in _RENEWS) if files else True
    for file in () if renewed else files:
        yield from _handed_in(file)
        moved = {before_methods(call.node, _MOVES): call.node for call in file.calls(*_MOVES)}
        for made in _metrics(file):
            if _is_lightning(made):
                yield from _by_hand(file, made)
                continue
            for name in file.names_given(moved.get(made.node, made.node)):
                if len(file.bindings(name, made.context)) > 1:
                    continue
                computes = [call for call in file.calls("compute") if _owner(call) == name]
                updates = [call for call in file.calls("update") if _owner(call) == name]
                updates += file.calls(name)  # `acc(scores, labels)` adds the batch too
                for compute in computes if updates else ():
                    if _lives_on(made, compute) and _is_asked_again(compute, updates):
                        yield Unreset(compute, name, made.place)


def _handed_in(file: File) -> Iterator[Unreset]:
    """Metrics that a function of all epochs has: `metrics: Iterable[Metric]`, `metrics = [Accuracy(), F1Score()]`."""
    for function in file.functions if ".compute()" in file.text else ():
        for held, begun in _several(file, function):
            loops = [node for node in function.nodes if isinstance(node, _TURNS) and loads(node.iter, held)]
            names = {held, *(last_name(part) for loop in loops for part in walk(loop.target))}
            calls = {
                last: [c for c in file.calls(last) if c.function is function and _owner(c) in names]
                for last in ("compute", "update")
            }
            for compute in calls["compute"]:
                epochs = [loop for loop in compute.loops if loop.node not in loops]
                batches = [[loop for loop in each.loops if loop.node not in loops] for each in calls["update"]]
                if epochs and any(epochs[0] in each[1:] for each in batches):
                    yield Unreset(compute, _owner(compute), begun)


def _several(file: File, function: Function) -> Iterator[tuple[str, Place]]:
    """The names of metrics that a function is given, or lists for itself, and where."""
    for arg in (*function.node.args.args, *function.node.args.kwonlyargs):
        if arg.annotation is not None and _is_annotated(file, arg.annotation, function):
            yield arg.arg, function.place(arg)
    made = {call.node for call in _metrics(file) if call.function is function}
    for line in function.all(ast.Assign) if made else ():
        listed = line.value.values if isinstance(line.value, ast.Dict) else getattr(line.value, "elts", [])
        name = last_name(line.targets[0])
        if isinstance(line.targets[0], ast.Name) and listed and made.issuperset(listed):
            if len(file.bindings(name, function.inner)) == 1:
                yield name, function.place(line)


def _is_annotated(file: File, annotation: ast.expr, function: Function) -> bool:
    """Whether a class of torchmetrics is named there."""
    named = [
        file.resolve(node, function.inner) for node in walk(annotation) if isinstance(node, ast.Name | ast.Attribute)
    ]
    return any(isinstance(name, str) and name.startswith("torchmetrics.") for name in named)


def _by_hand(file: File, made: Call) -> Iterator[Unreset]:
    """`self.log("acc", self.acc.compute())` at the end of an epoch: Lightning resets what it is given itself."""
    if made.function is None or made.function.name != "__init__" or made.cls is None:
        return
    for name in file.names_given(made.node):
        ends = [c for c in file.calls("compute") if _owner(c) == name and c.cls is made.cls and _ends_epoch(c)]
        fed = [c for c in (*file.calls("update"), *file.calls(name)) if c.cls is made.cls]
        fed = [c for c in fed if name in (_owner(c), last_name(c.node.func)) and _is_step(c)]
        alone = len(made.cls.attribute(name)) == 1 and not _is_handed_on(made.cls, name)
        yield from (Unreset(compute, name, made.place) for compute in ends if fed and alone)


def _ends_epoch(call: Call) -> bool:
    return call.function is not None and call.function.name.endswith("epoch_end")


def _is_step(call: Call) -> bool:
    return call.function is not None and call.function.name.endswith("_step")


def _is_handed_on(cls: Class, name: str) -> bool:
    """Whether the metric itself is given to something: `self.log("acc", self.acc)`, `[self.acc]`."""
    nodes = walk(cls.node)
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    reads = (node for node in nodes if isinstance(node, ast.Attribute) and node.attr == name)
    return any(isinstance(node.ctx, ast.Load) and node not in owners | called for node in reads)


def _is_lightning(made: Call) -> bool:
    return made.cls is not None and any(name.endswith("LightningModule") for name in made.cls.libraries)


def _metrics(file: File) -> Iterator[Call]:
    """Calls of torchmetrics' classes."""
    for last, calls in file.walk.calls.items():
        for node, context in calls if last[:1].isupper() else ():
            made = file.called(node, context)
            call = Call(file, node, context, made)
            if made.startswith("torchmetrics.") and ".functional." not in made and not call.loops:
                yield call


def _go_round(compute: Call, update: Call) -> bool:
    """`scores.result()` in a loop, with `scores.add(x, y)` in one inside of it: methods of what is made before both."""
    told, fed, cls = compute.function, update.function, compute.cls
    begun = cls.find("__init__") if cls is not None else None
    if told is None or fed is None or told is fed or begun is None or update.cls is not cls:
        return False
    epochs = {call.loops[0] for call in callers(compute.file.sites, told) if len(call.loops) == 1}
    rounds = {call.loops[-1] for call in callers(compute.file.sites, fed) if len(call.loops) == 2}
    anew = [outer for call in callers(compute.file.sites, begun) for outer in call.context.outwards()]
    return bool(epochs & rounds - set(anew))


def _named_calls(call: Call) -> list[Call]:
    """`self.decoder.report()`: calls by the name of the method around, where only one method is named so."""
    name, sites = call.function.name if call.function is not None else "", call.file.sites
    defined = [f for file in sites.mentioning([name]) for f in file.functions if f.name == name] if name else []
    return [each for file in sites.calling([name]) for each in file.calls(name)] if len(defined) == 1 else []


def _owner(call: Call) -> str:
    return last_name(call.node.func.value) if isinstance(call.node.func, ast.Attribute) else ""


def _lives_on(made: Call, compute: Call) -> bool:
    """Whether the metric is made before the epochs: in a constructor, or outside the loop or function that asks it."""
    if made.function is None or compute.function is None:
        return made.function is None
    in_constructor = made.function.name == "__init__" and made.cls is not None and made.cls is compute.cls
    return in_constructor or (made.function is compute.function and bool(compute.loops))


def _is_asked_again(compute: Call, updates: list[Call]) -> bool:
    """Whether a loop runs around the batches and the question: here, or around a call of this function."""
    if compute.loops:
        return any(compute.loops[0] in update.loops[1:] for update in updates)
    around = list(callers(compute.file.sites, compute.function)) if compute.function is not None else []
    if compute.cls is not None and any(_ends_epoch(call) for call in _named_calls(compute)):
        name = _owner(compute)
        whole = re.compile(rf"\.{name}\b(?!\s*=[^=])(?![.(])")  # `self.log("acc", self.head.acc)`: Lightning resets it
        if any(whole.search(file.text) for file in compute.file.sites.mentioning([name])):
            return False
        return any(update.cls is compute.cls and update.function is not compute.function for update in updates)
    if any(_go_round(compute, update) for update in updates):
        return True
    together = any(update.function is compute.function and update.loops for update in updates)
    return together and any(call.loops for call in around)
