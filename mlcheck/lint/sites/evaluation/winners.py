"""Where `argmax` picks a sample for each class instead of a class for each sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_MOVES = ("to", "cuda", "cpu", "long", "view", "view_as", "flatten", "squeeze", "data")
_STEPS = ("training_step", "validation_step", "test_step")
_LABELS = ("y", "labels", "label", "target", "targets", "classes")


class Winner(NamedTuple):
    """An `argmax` that is compared with labels."""

    place: Place
    compared: Place


def wrong_winners(sites: Sites, calls: frozenset[ast.AST]) -> Iterator[Winner]:
    """`scores.argmax(0) == labels`: the best sample for each class. `calls` are known to be of modules."""
    for file in sites.mentioning(["argmax(", "max("]):
        for comparison, context in file.walk.comparisons:
            if len(comparison.ops) != 1 or not isinstance(comparison.ops[0], ast.Eq):
                continue
            left, right = comparison.left, comparison.comparators[0]
            for side, other in ((left, right), (right, left)):
                winner, where = source(file, before_methods(side, _MOVES), context)
                labels = before_methods(other, _MOVES)
                if not isinstance(labels, ast.Name) or labels.id.lower() not in _LABELS:
                    continue
                dim = _dimension(winner)
                loop = _loop_around(file, winner, where, calls) if dim is not None else None
                if dim == "0" and _is_of_step(file, winner, where):
                    yield Winner(file.place(winner, where), file.place(comparison, context))
                    continue
                if (dim == "0" and loop is not None) or _is_metric_of_trainer(file, winner, labels, where):
                    yield Winner(file.place(winner, where), file.place(comparison, context))


def _dimension(node: ast.expr) -> str | None:
    """`0` of `x.argmax(0)` and of `x.argmax(dim=0)`; None for all else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "argmax":
        return None
    dims = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "dim")]
    return ast.unparse(dims[0]) if dims else None


def _loop_around(file: File, winner: ast.expr, context: Context, calls: frozenset[ast.AST]) -> Context | None:
    """The loop over a loader, where the winner is asked of what a model makes of a batch that it brings."""
    func = winner.func if isinstance(winner, ast.Call) else None
    scores = func.value if isinstance(func, ast.Attribute) else None
    found, where = source(file, scores, context) if scores is not None else (None, context)
    if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Name | ast.Attribute) or len(found.args) != 1:
        return None
    model = ast.unparse(found.func).rpartition(".")[2].lower()
    if found not in calls and not any(word in model for word in ("model", "net", "classifier")):
        return None
    loop = next((outer for outer in where.outwards() if outer.kind == "loop"), None)
    if loop is None or not isinstance(loop.node, ast.For) or "loader" not in ast.unparse(loop.node.iter).lower():
        return None
    return loop


def _is_of_step(file: File, winner: ast.expr, context: Context) -> bool:
    """`self(x).argmax(0)` in a step of Lightning, which gets batches."""
    function = file.function_around(context)
    scores = winner.func.value if isinstance(winner, ast.Call) and isinstance(winner.func, ast.Attribute) else None
    if function is None or function.name not in _STEPS or function.cls is None or scores is None:
        return False
    found, _ = source(file, scores, context)
    lightning = any(name.endswith("LightningModule") for name in function.cls.libraries)
    return lightning and isinstance(found, ast.Call) and ast.unparse(found.func) in ("self", "self.model", "self.net")


def _is_metric_of_trainer(file: File, winner: ast.expr, labels: ast.Name, context: Context) -> bool:
    """`logits, labels = eval_pred`, and `np.argmax(logits, axis=0)`: a Trainer hands over all samples at once."""
    if not isinstance(winner, ast.Call) or file.resolve(winner.func, context) != "numpy.argmax" or not winner.args:
        return False
    axis = [*winner.args[1:2], *(keyword.value for keyword in winner.keywords if keyword.arg == "axis")]
    function = file.function_around(context)
    if function is None or function.name != "compute_metrics" or not isinstance(winner.args[0], ast.Name):
        return False
    found = [latest(file, ast.Name(name, lineno=winner.lineno), context) for name in (winner.args[0].id, labels.id)]
    unpacked = [each.value for each in found if each is not None and each.kind == "item" and each.value is not None]
    return len(unpacked) == 2 and unpacked[0] is unpacked[1] and [ast.unparse(each) for each in axis] == ["0"]
