"""What is picked for each sample, from probabilities that add up over the samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.first_dimension import is_over_first
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

_LAYERS = ("torch.nn.Softmax", "torch.nn.LogSoftmax")
_SOFTMAXES = ("softmax", "log_softmax")
_SHAPED = ("unsqueeze", "view", "reshape", "long", "to", "contiguous")
_LABELS = frozenset(["target", "targets", "label", "labels", "y", "gt", "y_true"])


def labels_picked_along_other(file: File) -> Iterator[tuple[Call, ast.Call]]:
    """`log_softmax(pred, 0).gather(1, target.unsqueeze(1))`, of scores and labels that a loss is given."""
    for pick in file.calls("gather"):
        function, index = pick.function, pick.argument("index", 1)
        if function is None or pick.owner is None or not isinstance(index, ast.expr):
            continue
        label = before_methods(index, _SHAPED)
        if pick.constant("dim", 0) not in (1, -1) or last_name(label).lower() not in _LABELS:
            continue
        made, context = source(file, pick.owner, pick.context)
        if not isinstance(made, ast.Call) or last_name(made.func) not in _SOFTMAXES:
            continue
        softmax = Call(file, made, context)
        others = [node for node in function.nodes if isinstance(node, ast.Call) and last_name(node.func) in _SOFTMAXES]
        names = {node.id for node in walk(made) if isinstance(node, ast.Name)}
        if len(others) == 1 and names & set(function.parameters) and is_over_first(softmax):
            yield softmax, pick.node


def answers_picked_along_other(file: File) -> Iterator[tuple[Call, ast.Call]]:
    """`policy(states).gather(1, actions)`, of a model that ends with a softmax over dimension 0."""
    for pick in file.calls("gather"):
        if pick.owner is None or pick.constant("dim", 0) not in (1, -1):
            continue
        asked, context = source(file, pick.owner, pick.context)
        softmax = _last_of(file, asked.func, context) if isinstance(asked, ast.Call) else None
        if softmax is not None and is_over_first(softmax):
            yield softmax, pick.node


def _last_of(file: File, model: ast.expr, context: Context) -> Call | None:
    """The softmax that a model ends with: an `nn.Sequential`, or an object of a module class of the project."""
    function = file.function_around(context)
    name = own_attribute(model, function)
    sets = function.cls.attribute(name) if function is not None and function.cls is not None else []
    if len(sets) == 1 and sets[0][1].value is not None:
        file, model, context = sets[0][0].file, sets[0][1].value, sets[0][1].context
    made, context = source(file, model, context)
    named = file.resolve(made.func, context) if isinstance(made, ast.Call) else None
    if isinstance(made, ast.Call) and named == "torch.nn.Sequential" and made.args:
        last = made.args[-1]
        of_torch = isinstance(last, ast.Call) and file.called(last, context) in _LAYERS
        return Call(file, last, context) if of_torch and isinstance(last, ast.Call) else None
    forward = named.find("forward") if isinstance(named, Class) else None
    answers = list(returns(forward)) if forward is not None else []
    if forward is None or len(answers) != 1:
        return None
    answer, where = source(forward.file, answers[0], forward.inner)
    computed = isinstance(answer, ast.Call) and last_name(answer.func) in _SOFTMAXES
    return Call(forward.file, answer, where) if computed and isinstance(answer, ast.Call) else None
