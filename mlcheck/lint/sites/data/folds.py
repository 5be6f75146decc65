"""Loops over the folds of a cross-validation, and the rows that each fold holds out."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.data.learning import SCALERS, learner
from mlcheck.lint.sites.data.lineage import Passed
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name


def is_over_folds(file: File, over: ast.expr, context: Context) -> bool:
    """`KFold(5).split(X)`, also enumerated, or with the splitter in a variable."""
    node: ast.expr = over
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        node = node.args[0]  # enumerate(...), tqdm(...)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "split":
        return False
    made, inner = source(file, node.func.value, context)
    splitter = file.called(made, inner)
    if not splitter.startswith("sklearn.model_selection.") or splitter.endswith(".TimeSeriesSplit"):
        return False  # walking forward in time, a model may go on from what lies behind it
    return not isinstance(made, ast.Call) or Call(file, made, inner).constant("n_splits", 0) != 1


def rehearsed(split: Call, passed: Passed) -> bool:
    """Whether folds of the training data are scored that was scaled as a whole, and other data is scaled alike.

    `scaler.fit_transform(x)`, `cross_val_score(model, x, y)` and `scaler.transform(x_test)`: the test set is unseen,
    and what a fold tells of the range of the others is next to nothing.
    """
    node, file = passed.node, passed.file
    folds = last_name(split.node.func).startswith("cross_val") or is_over_folds(split.file, split.node, split.context)
    if not folds or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = ast.unparse(node.func.value)
    if learner(file, node.func.value, passed.context) not in SCALERS:
        return False
    alike = [c.node for c in file.calls("transform") if isinstance(c.node.func, ast.Attribute) and c.node.args]
    others = [call for call in alike if call is not node and ast.unparse(call.func).rpartition(".")[0] == owner]
    return any(ast.dump(call.args[0]) != ast.dump(node.args[0]) for call in others)


def held_out_by_fold(file: File, data: ast.expr, context: Context) -> str:
    """`va` of `X[va]` in `for tr, va in KFold(5).split(X)`, also where that has a name; "" for any other rows."""
    rows, _ = source(file, data, context)
    if not isinstance(rows, ast.Subscript) or not isinstance(rows.slice, ast.Name):
        return ""
    chosen = rows.slice
    found = latest(file, chosen, context)
    loop = found.node if found is not None else None
    if not isinstance(loop, ast.For) or split_of_name(chosen.id) == "train":
        return ""
    target = loop.target
    if isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Tuple):
        target = target.elts[-1]  # of `for fold, (tr, va) in enumerate(...)`
    is_second = isinstance(target, ast.Tuple) and len(target.elts) == 2 and is_name(target.elts[1], chosen.id)
    return chosen.id if is_second and is_over_folds(file, loop.iter, context) else ""
