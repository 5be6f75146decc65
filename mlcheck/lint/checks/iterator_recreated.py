"""iterator-recreated: every training step makes a new iterator, so that it sees only first batches."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.origins import callers

LOOKS_AT = "loader iterator"
WORDS = ("next(iter(",)
_DEPTH = 4
_HELD_OUT = ("val", "test", "eval", "dev")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["next(iter("]):
        if "backward" not in file.text:
            continue
        for call in file.calls("next"):
            facts.sites.seen[LOOKS_AT] += 1
            if _is_batch_of_new_iterator(call) and _trains_each_time(call):
                yield Finding(
                    "Each turn makes a new iterator and takes its first batch: the workers start anew every time, "
                    "and without shuffling it is always the same batch",
                    call.place.location,
                    help="make the iterator before the loop, or loop over the loader itself",
                )


def _is_batch_of_new_iterator(call: Call) -> bool:
    """`next(iter(loader))` of a loader that was there before the loop."""
    given = call.node.args[0] if call.node.args and isinstance(call.node.func, ast.Name) else None
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Name) or given.func.id != "iter":
        return False
    loader = given.args[0] if len(given.args) == 1 else None
    if not isinstance(loader, ast.Name | ast.Attribute):
        return False
    name = (loader.id if isinstance(loader, ast.Name) else loader.attr).lower()
    known, where = call.file.value(loader, call.context)
    if known is not loader and where.scope is call.context.scope and where.scope.kind == "function" and not call.loops:
        return False  # made as anew as its iterator, for the one batch that is wanted of it
    named = isinstance(known, ast.Call) and ast.unparse(known.func).endswith("DataLoader")
    if named and isinstance(known, ast.Call) and _draws_at_once(known):
        return False
    return (named or "loader" in name) and not any(word in name for word in _HELD_OUT)


def _draws_at_once(loader: ast.Call) -> bool:
    """`DataLoader(data, shuffle=True)` without workers: each new iterator draws another batch, and starts nothing."""
    words = {word.arg: ast.unparse(word.value) for word in loader.keywords}
    return words.get("shuffle") == "True" and words.get("num_workers", "0") == "0"


def _trains_each_time(call: Call, trains: bool = False, depth: int = _DEPTH) -> bool:
    """Whether the loop around it, or around the one call of its function, runs a backward, or that function does.

    Without a condition between.
    """
    for context in call.context.outwards():
        if context.kind == "loop":
            around = context.node
            return trains or (isinstance(around, ast.For | ast.While) and _runs_backward(around.body))
        if context.kind == "function" and call.function is not None and depth > 0:
            calls = list(callers(call.file.sites, call.function))
            learns = trains or _runs_backward(call.function.node.body)
            if len(calls) != 1 or calls[0].function is call.function or not (learns or _only_takes(call.function)):
                return False
            return _trains_each_time(calls[0], learns, depth - 1)
        if context.kind in ("if", "try", "function", "lambda", "class", "module", "comprehension"):
            return False
    return False


def _only_takes(function: Function) -> bool:
    """`def batch(self): return next(iter(self.loader))`, or with what it took moved to a device."""
    *lines, last = function.node.body
    return isinstance(last, ast.Return) and all(isinstance(line, ast.Assign) for line in lines)


def _runs_backward(block: list[ast.stmt]) -> bool:
    todo: list[ast.AST] = list(block)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            return True
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))
    return False
