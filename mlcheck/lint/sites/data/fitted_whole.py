"""What is fitted on the whole of data that the same function splits."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.training.optimizers import around

_TEST = "sklearn.model_selection.train_test_split"


def split_of_fitted(fit: Call) -> Call | None:
    """The call that splits the very data that something is fitted on, where what was fitted is used on the parts."""
    data, owner = fit.node.args[0], fit.node.func
    if not isinstance(data, ast.Name) or not isinstance(owner, ast.Attribute):
        return None
    names = [*fit.file.names_given(fit.node), *([owner.value.id] if isinstance(owner.value, ast.Name) else [])]
    held = latest(fit.file, data, fit.context)
    for call in fit.file.calls("train_test_split") if held is not None else ():
        if fit.file.resolve(call.node.func, call.context) != _TEST or call.function is not fit.function:
            continue
        same = [each for each in call.node.args if is_name(each, data.id)]
        later = [node for node in walk(around(fit)) if getattr(node, "lineno", 0) > (call.node.end_lineno or 0)]
        used = any(isinstance(node, ast.Name) and node.id in names for node in later)
        used = used if fit.node.lineno < call.node.lineno else _transforms_part(fit, call)
        if same and used and latest(fit.file, same[0], call.context) is held:
            return call
    return None


def _transforms_part(fit: Call, split: Call) -> bool:
    """Whether what was fitted beneath the split, on what was split, is then used on one of its parts."""
    nodes = walk(fit.cls.node if fit.cls is not None else around(fit))
    line = next((node for node in nodes if isinstance(node, ast.Assign) and node.value is split.node), None)
    parts = {ast.unparse(part) for part in getattr(line.targets[0], "elts", ())} if line is not None else set()
    kept = {ast.unparse(node.targets[0]) for node in nodes if isinstance(node, ast.Assign) and node.value is fit.node}
    owners = kept | ({ast.unparse(fit.owner)} if fit.owner is not None else set())
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="transform"), args=[part, *_]):
                if ast.unparse(owner) in owners and ast.unparse(part) in parts:
                    return True
    return False
