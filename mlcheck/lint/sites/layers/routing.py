"""Weights of experts: normalised over one dimension, and picked along another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.dimensions import unpacked
from mlcheck.lint.sites.model import Call, Class

_CLASSES = pattern(r"pred|label|class|cls")
_PICKS = ("topk", "argmax", "max")
_SAME = ("cpu", "detach", "numpy", "float", "to", "cuda", "data")


def picked_along_other(cls: Class) -> Iterator[tuple[Call, ast.Call]]:
    """`self.gate(tokens).softmax(0)`, of which `topk` takes the largest along the last dimension, with that pick."""
    for pick in cls.file.calls(*_PICKS):
        if pick.cls is not cls or pick.function is None:
            continue
        weights = _subject(cls.file, pick)
        dim = pick.constant("dim", _position(cls.file, pick))
        made, context = source(cls.file, weights, pick.context) if weights is not None else (None, pick.context)
        if dim in (-1, 1) and isinstance(made, ast.Call):
            softmax = Call(cls.file, made, context)
            scores = _scores(cls, softmax)
            if scores is not None and (dim == 1 or _has_rows(softmax, scores)):
                yield softmax, pick.node


def named_along_other(file: File) -> Iterator[tuple[Call, ast.Call]]:
    """`argmax(softmax(scores, 0), 1)`: a softmax over dimension 0, and the call that names the largest along 1.

    Or `_, predicted = softmax(scores, 0).max(1)`.
    """
    for pick in file.calls("argmax", "max"):
        of_numpy = file.called(pick.node, pick.context) == "numpy.argmax"
        given = pick.argument("a", 0) if of_numpy else _subject(file, pick)
        dim = pick.constant("axis", 1) if of_numpy else pick.constant("dim", _position(file, pick))
        made = before_methods(given, _SAME) if isinstance(given, ast.expr) else None
        made, context = source(file, made, pick.context) if made is not None else (None, pick.context)
        if dim != 1 or isinstance(dim, bool) or not isinstance(made, ast.Call):
            continue
        softmax = Call(file, made, context)
        layer = made.func if isinstance(made.func, ast.Call) else None
        if layer is not None and file.called(layer, context) in ("torch.nn.Softmax", "torch.nn.LogSoftmax"):
            over = Call(file, layer, context).constant("dim", 0)
        elif getattr(made.func, "attr", getattr(made.func, "id", "")) in ("softmax", "log_softmax"):
            over = softmax.constant("dim", _position(file, softmax))
        else:
            continue
        if over == 0 and not isinstance(over, bool) and (last_name(pick.node.func) == "argmax" or _gives_classes(pick)):
            yield softmax, pick.node


def _gives_classes(pick: Call) -> bool:
    """`_, predicted = scores.max(1)`: what is taken is a class, or a label."""
    around = pick.function.nodes if pick.function is not None else walk(pick.file.module.source.tree)
    for node in around:
        target = node.targets[0] if isinstance(node, ast.Assign) and node.value is pick.node else None
        if isinstance(target, ast.Tuple) and len(target.elts) == 2:
            return _CLASSES.search(ast.unparse(target.elts[1])) is not None
    return False


def _scores(cls: Class, softmax: Call) -> ast.Call | None:
    """The call of a linear layer of the class, of whose result this is a softmax over dimension 0."""
    named = getattr(softmax.node.func, "attr", getattr(softmax.node.func, "id", ""))
    given = _subject(cls.file, softmax)
    if named != "softmax" or given is None or softmax.constant("dim", _position(cls.file, softmax)) != 0:
        return None
    scores, _ = source(cls.file, before_methods(given, ("float", "to")), softmax.context)
    layer = scores.func.attr if isinstance(scores, ast.Call) and isinstance(scores.func, ast.Attribute) else ""
    sets = cls.attribute(layer)
    if len(sets) != 1 or sets[0][0].file.called(sets[0][1].value, sets[0][1].context) != "torch.nn.Linear":
        return None
    return scores if isinstance(scores, ast.Call) and len(scores.args) == 1 else None


def _has_rows(softmax: Call, scores: ast.Call) -> bool:
    """Whether what the layer is given has more than one dimension: `x.reshape(b * t, d)`, `b, t, d = x.shape`."""
    given = scores.args[0]
    if isinstance(given, ast.Name) and unpacked(softmax, given):
        return True
    made, _ = source(softmax.file, given, softmax.context)
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return False
    return made.func.attr in ("reshape", "view") and len(made.args) > 1


def _subject(file: File, call: Call) -> ast.expr | None:
    """`x` of `x.topk(2)` and of `torch.topk(x, 2)`."""
    if not _is_of_library(file, call):
        return call.owner
    given = call.argument("input", 0)
    return given if isinstance(given, ast.expr) else None


def _position(file: File, call: Call) -> int:
    """Which argument is the dimension."""
    later = getattr(call.node.func, "attr", "") == "topk"
    return int(_is_of_library(file, call)) + int(later)


def _is_of_library(file: File, call: Call) -> bool:
    return isinstance(file.resolve(call.node.func, call.context), str)
