"""The best of all test scores, reported as if it were the score of one model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.evaluation.test_scores import scored_on_test
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_BEST = ("max", "min", "argmax", "argmin", "amax", "nanmax")
_TOLD = ("print", "info", "log", "write", "append", "warning")
_NAMED = pattern(r"best|highest|final|top")
_VALIDATES = pattern(r"\bval|_val|\bdev\b|_dev\b")
_TRAINS = ("backward", "train", "fit", "train_epoch", "train_one_epoch")


def best_of_epochs(sites: Sites) -> Iterator[Finding]:
    """`print(max(test_accs))`, of a list that each epoch of the training adds a score to."""
    for file in sites.mentioning(["test", "Test"]):
        for call in file.calls(*_BEST) if "torch" in file.text else ():
            owner = call.node.args[0] if len(call.node.args) == 1 and not call.node.keywords else None
            if owner is None or _split(owner) != "test" or not _is_told(call):
                continue
            added = [other for other in file.calls("append") if _is_added(other, owner, call) and _is_of_epochs(other)]
            if added:
                yield Finding(
                    f"The best epoch on the test set is picked from `{ast.unparse(owner)}`: its score is no longer "
                    "an estimate",
                    call.place.location,
                    help="pick the epoch on a validation set, and report its test score; or report the last",
                    related=(added[0].place.location,),
                )


def running_best(sites: Sites) -> Iterator[tuple[Call, ast.AST]]:
    """`best = max(best, score)` in a loop, of a score on the test set, where `best` is told and nothing validates.

    With what took the score.
    """
    for file in sites.mentioning(["test", "Test"]):
        for call in file.calls("max", "min") if "torch" in file.text else ():
            names, function = file.names_given(call.node), call.function
            if len(call.node.args) != 2 or len(names) != 1 or function is None or not call.loops:
                continue
            before = [arg for arg in call.node.args if ast.unparse(arg) == names[0]]
            scores = [arg for arg in call.node.args if ast.unparse(arg) != names[0]]
            if len(before) != 1 or _VALIDATES.search(function.text) or not _is_told_at_end(call, names[0]):
                continue
            taken = scored_on_test(file, scores[0], call.context)
            if taken is not None:
                yield call, taken


def _is_told_at_end(call: Call, name: str) -> bool:
    """Whether what is left of it behind the loop is returned, written or printed."""
    loop, function = call.loops[-1].node, call.function
    end = getattr(loop, "end_lineno", 0) or 0
    inside: list[ast.expr] = []
    for node in function.nodes if function is not None else ():
        if getattr(node, "lineno", 0) <= end:
            continue
        if isinstance(node, ast.Return) and node.value is not None:
            inside.append(node.value)
        elif isinstance(node, ast.Call) and last_name(node.func) in _TOLD:
            inside += [*node.args, *(word.value for word in node.keywords)]
    return any(ast.unparse(part) == name for value in inside for part in walk(value) if isinstance(part, ast.expr))


def _split(node: ast.expr) -> str:
    """The split that `test_accs`, `self.test_accs` and `history["test_acc"]` tell."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return split_of_name(str(node.slice.value))
    return split_of_name(ast.unparse(node).rpartition(".")[2]) if isinstance(node, ast.Name | ast.Attribute) else ""


def _is_added(other: Call, owner: ast.expr, best: Call) -> bool:
    """`owner.append(...)` in the function that picks the best, or of an attribute of the same object."""
    func = other.node.func
    same = other.function is best.function or (isinstance(owner, ast.Attribute) and other.cls is best.cls)
    return same and isinstance(func, ast.Attribute) and ast.unparse(func.value) == ast.unparse(owner)


def _is_of_epochs(added: Call) -> bool:
    """Whether the innermost loop around it trains, in a loop of its own or by a call."""
    loop = added.loops[0].node if added.loops else None
    parts = (node.func for node in walk(loop) if isinstance(node, ast.Call)) if loop is not None else ()
    return any((last_name(part)) in _TRAINS and not ast.unparse(part).endswith((".train",)) for part in parts)


def _is_told(call: Call) -> bool:
    """Whether it is printed, logged, returned, or kept under a name that says what it is."""
    if any(_NAMED.search(name) for name in call.file.names_given(call.node)):
        return True
    around = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    for node in around:
        inside: list[ast.expr] = []
        if isinstance(node, ast.Return) and node.value is not None:
            inside = [node.value]
        elif isinstance(node, ast.Call) and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) in _TOLD:
            inside = [*node.args, *(word.value for word in node.keywords)]
        if any(part is call.node for value in inside for part in walk(value)):
            return True
    return False
