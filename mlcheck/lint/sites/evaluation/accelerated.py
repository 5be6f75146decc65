"""Scores of held-out batches that an Accelerator deals out to its processes, and that nobody gathers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name, loads, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites

_TOGETHER = ("gather", "reduce", "torchmetrics", "torcheval", "num_process", "process_index", "is_main_process")
_QUIET = ("no_grad", "inference_mode")
_METRICS = "sklearn.metrics."


class OfOneProcess(NamedTuple):
    """A score of what one process has seen, and the `prepare` that deals the batches out."""

    function: Function
    score: ast.expr
    prepared: Call


def of_one_process(sites: Sites) -> Iterator[OfOneProcess]:
    prepared = [
        (call, _prepared(call))
        for file in sites.mentioning(["Accelerator", "accelerator"])
        for call in file.calls("prepare")
        if _is_accelerator(call)
    ]
    for file in {call.file for call, _ in prepared} | {*sites.mentioning(["accelerator"])} if prepared else ():
        for function in file.functions:
            if not any(word in function.text for word in _QUIET) or any(word in function.text for word in _TOGETHER):
                continue
            for loop in function.all(ast.For):
                call = _dealing(sites, function, _over(loop), prepared)
                if call is not None and not _trains_or_gathers(file, function, loop):
                    if (score := _score(file, function, loop)) is not None:
                        yield OfOneProcess(function, score, call)
                        break


def _is_accelerator(call: Call) -> bool:
    found = origins(call.file, call.owner, call.context) if call.owner is not None else []
    return bool(found) and all(origin.name.endswith(".Accelerator") for origin in found)


def _prepared(call: Call) -> set[str]:
    """The names that get what is prepared: `model, val_loader = accelerator.prepare(model, val_loader)`."""
    around = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    targets = [
        target for node in around if isinstance(node, ast.Assign) and node.value is call.node for target in node.targets
    ]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {ast.unparse(part) for part in parts}


def _over(loop: ast.For) -> ast.expr:
    """`loader` of `enumerate(tqdm(loader))`."""
    over = loop.iter
    while isinstance(over, ast.Call) and last_name(over.func) in ("enumerate", "tqdm") and over.args:
        over = over.args[0]
    return over


def _dealing(sites: Sites, function: Function, over: ast.expr, prepared: list[tuple[Call, set[str]]]) -> Call | None:
    """The `prepare` that the loader has gone through: here, in another method, or where this function is called."""
    text = ast.unparse(over)
    for call, names in prepared:
        same = call.function is function or (call.cls is not None and call.cls is function.cls and "." in text)
        if same and text in names:
            return call
    if not isinstance(over, ast.Name) or over.id not in function.parameters:
        return None
    position = [name for name in function.parameters if name != function.receiver].index(over.id)
    found = []
    for each in callers(sites, function):
        given = each.argument(over.id, position)
        dealt = [
            call for call, names in prepared if call.function is each.function and ast.unparse(given or over) in names
        ]
        found.append(dealt[0] if given is not None and dealt else None)
    return found[0] if found and all(found) else None


def _trains_or_gathers(file: File, function: Function, loop: ast.For) -> bool:
    for node in walk(loop):
        if isinstance(node, ast.Call):
            if last_name(node.func) == "backward":
                return True
            named = file.resolve(node.func, function.inner)
            if isinstance(named, Function) and any(word in named.text for word in _TOGETHER):
                return True
    return False


def _score(file: File, function: Function, loop: ast.For) -> ast.expr | None:
    """`metric.compute()`, `correct / total` and `accuracy_score(labels, guesses)` of what the loop has collected."""
    inside = walk(loop)
    added = {ast.unparse(node.target) for node in inside if isinstance(node, ast.AugAssign)}
    filled = {
        ast.unparse(node.func.value): node.func.attr
        for node in inside
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("add_batch", "append", "extend")
    }
    for node in function.nodes:
        if not isinstance(node, ast.expr) or node.lineno <= (loop.end_lineno or 0):
            continue
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="compute")) if (
                filled.get(ast.unparse(owner)) == "add_batch"
            ):
                return node
            case ast.BinOp(left=left, op=ast.Div()) if ast.unparse(left).removesuffix(".item()") in added:
                return node
            case ast.Call() if file.called(node, function.inner).startswith(_METRICS):
                if any(loads(node, name) for name, how in filled.items() if how != "add_batch"):
                    return node
    return None
