"""Metrics behind a loop over batches, of labels and predictions that each batch overwrote: those of the last alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, loads, reads_of, stores_of, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops, straight
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_LIBRARIES = ("sklearn.metrics.", "torchmetrics.functional.", "torcheval.metrics.functional.")
_BATCHES = pattern(r"loader|(?:\b|_)dl\b|batches|iterator")
_LOSS = pattern(r"loss|criterion|cross_entropy|nll|mse")
_LOADER = "torch.utils.data.DataLoader"


class LastAlone(NamedTuple):
    """A metric, the names it is given, the line that overwrites one of them, and the loop."""

    loop: LoopSite
    metric: ast.Call
    names: tuple[str, str]
    line: ast.stmt


def metrics_of_last_batch(sites: Sites) -> Iterator[LastAlone]:
    """`for x, y in loader: pred = model(x).argmax(1)`, and `f1_score(y, pred)` behind it."""
    for file in sites.mentioning(["sklearn", "torchmetrics", "torcheval"]):
        for loop in for_loops(file):
            if _BATCHES.search(ast.unparse(loop.node.iter).lower()) and _ends_only_at_the_end(loop):
                yield from _judged(file, loop)


def _ends_only_at_the_end(loop: LoopSite) -> bool:
    trains = ".backward(" in loop.file.module.text_of(loop.node)
    return not trains and not any(isinstance(node, ast.Break | ast.Return | ast.Yield) for node in walk(loop.node))


def _judged(file: File, loop: LoopSite) -> Iterator[LastAlone]:
    metrics = [
        node
        for line in loop.after
        for node in walk(line)
        if isinstance(node, ast.Call) and len(node.args) > 1 and file.called(node, loop.context).startswith(_LIBRARIES)
    ]
    made = _made_by_turn(loop) if metrics else {}
    for metric in metrics:
        first, second = metric.args[:2]
        if not isinstance(first, ast.Name) or not isinstance(second, ast.Name):
            continue
        names = (first.id, second.id)
        if first.id in made and second.id in made and not _is_joined(loop, metric, names):
            if not _is_whole(file, loop):
                yield LastAlone(loop, metric, names, made[second.id])
                return


def _made_by_turn(loop: LoopSite) -> dict[str, ast.stmt]:
    """The names that every turn gives a new value, of what it brought or of what it computed from that."""
    brought = {node.id for node in walk(iteration_of(loop.node).brought) if isinstance(node, ast.Name)}
    found: dict[str, ast.stmt] = dict.fromkeys(brought, loop.node)
    for line in straight(loop.node.body):
        for target, value in assigned(line) if isinstance(line, ast.Assign) else ():
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name) and any(loads(value, name) for name in found):
                    if not loads(value, part.id) or part.id in found:
                        found[part.id] = line
    kept = {
        node.target.id
        for node in walk(loop.node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return {name: line for name, line in found.items() if name not in kept}


def _is_joined(loop: LoopSite, metric: ast.Call, names: tuple[str, str]) -> bool:
    """Whether a name is given another value between the loop and the metric, or was there before the loop."""
    between = [line for line in loop.after if line.lineno <= metric.lineno]
    return any(stores_of(walk(line), name) for name in names for line in (*between, *loop.before))


def _is_whole(file: File, loop: LoopSite) -> bool:
    """Whether the one batch of the loader is all of its data."""
    for node in walk(loop.node.iter):
        for origin in origins(file, node, loop.context) if isinstance(node, ast.Name | ast.Attribute) else ():
            if origin.name == _LOADER and isinstance(origin.node, ast.Call):
                size = Call(origin.file, origin.node, origin.context).argument("batch_size", 1)
                made = origin.file.value(size, origin.context)[0] if size is not None else None
                if made is not None and ("len(" in ast.unparse(made) or ".shape" in ast.unparse(made)):
                    return True
    return False


def last_alone(loop: LoopSite) -> ast.expr | None:
    """`return loss.item()` behind a loop of an evaluation that keeps the last loss alone."""
    text = loop.file.module.text_of(loop.scope) if isinstance(loop.scope, ast.FunctionDef) else ""
    if ".eval()" not in text or "backward(" in text or "loader" not in ast.unparse(loop.node.iter).lower():
        return None
    if any(isinstance(n, ast.Break | ast.Return | ast.Yield) for n in walk(loop.node)):
        return None
    kept = [n for n in walk(loop.node) if isinstance(n, ast.AugAssign | ast.Expr)]
    made = {
        target.id
        for line in straight(loop.node.body)
        for target, value in (assigned(line) if isinstance(line, ast.Assign) else ())
        if isinstance(target, ast.Name) and isinstance(value, ast.Call) and len(value.args) == 2
    }
    for statement in loop.after:
        given = statement.value if isinstance(statement, ast.Return) else None
        told = given.values if isinstance(given, ast.Dict) else getattr(given, "elts", [given])
        for node in told:
            bare = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
            if not isinstance(bare, ast.Name) or bare.id not in made or (node is bare and not _LOSS.search(bare.id)):
                continue
            if not kept or not reads_of(walk(loop.node), bare.id):
                return node
    return _share_of_last(loop) if not kept else None


def _share_of_last(loop: LoopSite) -> ast.expr | None:
    """`hits = (pred == y).sum().item()` in the loop, and `hits / len(loader.dataset)` behind it."""
    counts = {
        target.id
        for line in straight(loop.node.body)
        for target, value in (assigned(line) if isinstance(line, ast.Assign) else ())
        if isinstance(target, ast.Name) and ast.unparse(value).endswith((".sum().item()", ".sum()"))
    }
    counts -= {node.id for line in loop.before for node in walk(line) if isinstance(node, ast.Name)}
    for node in (node for line in loop.after for node in walk(line)):
        match node:
            case ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=ast.Call(func=ast.Name(id="len"), args=[data])):
                if name in counts and ast.unparse(data) == f"{ast.unparse(iteration_of(loop.node).over)}.dataset":
                    return node.left
    return None
