"""drop-last-eval: the last samples of an evaluation set are left out."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.training.optimizers import around

LOOKS_AT = "held-out loader"
WORDS = ("DataLoader",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(loader.split in ("val", "test") for loader in facts.sites.once(loaders))
    for loader in facts.sites.once(loaders):
        fixed = "deepspeed" in loader.call.file.text
        if loader.split in ("val", "test") and not loader.trained and not loader.draws_itself and not fixed:
            alone = loader.call.constant("batch_size", 1, 1) == 1
            endless = _is_endless(loader.call) or _is_gone_through_for_ever(loader)
            if loader.call.constant("drop_last", 8, False) is True and not alone and not endless:
                yield Finding(
                    "`drop_last=True` leaves samples out of the evaluation: which ones depends on the batch size",
                    loader.call.place.location,
                    help="leave `drop_last` at False for validation and test data",
                )


def _is_endless(loader: Call) -> bool:
    """`cycle(DataLoader(...))`: what goes round and round leaves nothing out for good."""
    for node in walk(around(loader)):
        if isinstance(node, ast.Call) and any(given is loader.node for given in node.args):
            named = loader.file.resolve(node.func, loader.context)
            if named == "itertools.cycle" or (isinstance(named, Function) and _repeats(named)):
                return True
    return False


def _is_gone_through_for_ever(loader: Loader) -> bool:
    """`while True: for batch in loader: yield batch`, and no other loop over it: it is there to be drawn from."""
    loops = [
        (node, any(node in walk(each) for each in function.nodes if _is_for_ever(each)))
        for function in loader.call.file.functions
        for node in function.nodes
        if isinstance(node, ast.For) and ast.unparse(node.iter) in loader.names
    ]
    return bool(loops) and all(endless for _, endless in loops)


def _repeats(function: Function) -> bool:
    """A generator that begins anew for ever."""
    return any(_is_for_ever(node) for node in function.nodes)


def _is_for_ever(node: ast.AST) -> bool:
    """`while True:` with a `yield` in it."""
    if not isinstance(node, ast.While) or not isinstance(node.test, ast.Constant) or not node.test.value:
        return False
    return any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in walk(node))
