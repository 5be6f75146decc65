"""Overlaps of masks, as Dice and Jaccard take them, of scores that are no probabilities."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.scopes import Context

_OF_LOGITS: tuple[str, ...] = ("torch.nn.BCEWithLogitsLoss", "torch.nn.CrossEntropyLoss")
_OF_LOGITS += ("torch.nn.functional.binary_cross_entropy_with_logits", "torch.nn.functional.cross_entropy")
_SQUASHES = pattern(r"sigmoid|softmax|argmax|one_hot|clamp|exp\(|activation|\bact\b|logits|>|norm|round")
_SHAPES = ("view", "reshape", "flatten", "contiguous", "float", "squeeze", "to")
_NAMED = pattern(r"dice|jaccard|iou|tversky|overlap", re.IGNORECASE)


class Overlap(NamedTuple):
    """The call that takes the overlap of scores, the name of those, and the loss that takes them for logits."""

    call: Call
    scores: str
    loss: Call


def overlaps_of_logits(sites: Sites) -> Iterator[Overlap]:
    """`self.bce(out, mask) + self.dice(out, mask)`, where nothing in `dice` makes probabilities of what it is given."""
    for file in sites.mentioning(["dice", "Dice", "iou", "IoU", "accard", "versky"]) if sites.uses_torch else ():
        for scores, calls in _by_scores(file):
            loss = next((call for call in reversed(calls) if _is_of_logits(call)), None)
            for call in calls if loss is not None else ():
                if loss is not None and _hold_the_same(call, loss) and _is_overlap(call):
                    yield Overlap(call, scores, loss)


def _by_scores(file: File) -> Iterator[tuple[str, list[Call]]]:
    """The calls of one function that are given the same thing first, and its name."""
    found: dict[tuple[Function, str], list[Call]] = {}
    for calls in file.walk.calls.values():
        for node, context in calls:
            given = node.args[0] if node.args else None
            function = file.function_around(context) if isinstance(given, ast.Name | ast.Attribute) else None
            if function is not None and given is not None:
                found.setdefault((function, ast.unparse(given)), []).append(Call(file, node, context))
    yield from ((name, calls) for (_, name), calls in found.items() if len(calls) > 1)


def _hold_the_same(one: Call, other: Call) -> bool:
    """Whether what both get under one name is the same: nothing is put in its place between them."""
    first, second = one.node.args[0], other.node.args[0]
    if isinstance(first, ast.Name) and isinstance(second, ast.Name):
        return latest(one.file, first, one.context) is latest(one.file, second, one.context) is not None
    return one.node is not other.node


def _is_of_logits(call: Call) -> bool:
    made = {canonical(each.name) for each in origins(call.file, call.node.func, call.context)}
    return call.file.called(call.node, call.context) in _OF_LOGITS or (bool(made) and made <= set(_OF_LOGITS))


def _is_overlap(call: Call) -> bool:
    found = run_by(call.file, call.node.func, call.context)
    run = found.function if found is not None else None
    if run is None or not is_named_overlap(run):
        return False
    names = [name for name in run.parameters if name != run.receiver]
    body = "\n".join(ast.unparse(line) for line in run.node.body)
    return len(names) > 1 and not _SQUASHES.search(body) and any(_is_product(run, n, names) for n in run.all(ast.BinOp))


def is_named_overlap(function: Function) -> bool:
    """Whether the name says so: its own, or that of its class."""
    return bool(_NAMED.search(f"{function.name} {function.cls.name if function.cls is not None else ''}"))


def _is_product(function: Function, node: ast.BinOp, names: list[str]) -> bool:
    """`pred * target` of the first two parameters, in whatever shape, which is summed."""
    if not isinstance(node.op, ast.Mult):
        return False
    sides = [_parameter(function.file, side, function.inner) for side in (node.left, node.right)]
    return sorted(sides) == sorted(names[:2])


def _parameter(file: File, node: ast.expr, context: Context) -> str:
    """`pred` of `pred.flatten(1)`, also where the name was given that."""
    for _ in range(3):
        node = before_methods(node, _SHAPES)
        if not isinstance(node, ast.Name):
            return ""
        made, _ = source(file, node, context)
        if made is node or not isinstance(before_methods(made, _SHAPES), ast.Name):
            bound = file.bindings(node.id, context)
            values = [each.value for each in bound if each.kind != "param"]
            same = all(isinstance(v, ast.expr) and node.id in {last_name(p) for p in walk(v)} for v in values)
            return node.id if same else ""
        if is_name(before_methods(made, _SHAPES), node.id):
            return node.id
        node = made
    return node.id if isinstance(node, ast.Name) else ""
