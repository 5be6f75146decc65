"""drop-last-eval: the last samples of an evaluation set are left out."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Binding, Call, Function
from mlcheck.lint.sites.data.loaders import LOADER, Loader, loaders
from mlcheck.lint.sites.data.makers import Made, made
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.values import split_of_name
from mlcheck.lint.words import lines_with

LOOKS_AT = "held-out loader"
WORDS = ("DataLoader",)
_WHY = "`drop_last=True` leaves samples out of the evaluation: which ones depends on the batch size"
_HOW = "leave `drop_last` at False for validation and test data"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(loader.split in ("val", "test") for loader in facts.sites.once(loaders))
    for loader in facts.sites.once(loaders):
        fixed = "deepspeed" in loader.call.file.text
        if loader.split in ("val", "test") and not loader.trained and not loader.draws_itself and not fixed:
            alone = loader.call.constant("batch_size", 1, 1) == 1
            drops = loader.call.constant("drop_last", 8, False) is True and not alone
            if drops and not (_is_endless(loader.call) or _is_gone_through_for_ever(loader) or _is_looked_at(loader)):
                yield Finding(_WHY, loader.call.place.location, help=_HOW)
    for each in facts.sites.once(made):
        told = each.split in ("val", "test") and not each.trained and each.loader.own_split == ""
        if told and _is_dropping(each) and not _is_asked_for_data_alone(each):
            yield Finding(_WHY, each.call.place.location, help=_HOW, related=(each.loader.call.place.location,))
    for call in facts.sites.calls(LOADER):
        yield from (Finding(_WHY, place.location, help=_HOW) for place in _in_branch_of_split(call))


def _is_dropping(each: Made) -> bool:
    """`make(test_set)`, of a function whose loaders all drop the last batch, or do so as this call asks."""
    given = each.loader.call.argument("drop_last", 8)
    fixed = each.loader.call.constant("drop_last", 8, False) is True or each.constant("drop_last", 8) is True
    alone = 1 in (each.constant("batch_size", 1), each.loader.call.constant("batch_size", 1, 1))
    draws = each.loader.draws_itself or "deepspeed" in each.call.file.text or _is_endless(each.call)
    return given is not None and fixed and not alone and not draws and not _is_endless(each.loader.call)


def _is_asked_for_data_alone(each: Made) -> bool:
    """Whether `loader.dataset[i]` is all that is read of it: no loop goes through it, and no function is given it."""
    lines = [
        (name, line)
        for name in each.call.file.names_given(each.call.node)
        for file in each.call.file.sites.mentioning([name], tests=True)
        for line in lines_with(name, file.text)
    ]
    read = any(re.search(rf"\bin [\w.(]*{name}\b(?!\.)|\w\([^()\n\[]*\b{name}\b(?!\.)", line) for name, line in lines)
    return not read and any(f"{name}.dataset" in line for name, line in lines)


def _in_branch_of_split(loader: Call) -> Iterator[Place]:
    """`if flag == "test": drop_last = True`, in a function that makes the loaders of all splits."""
    given, size = loader.argument("drop_last", 8), loader.argument("batch_size", 1)
    if not isinstance(given, ast.Name) or _is_endless(loader):
        return
    sizes = loader.file.bindings(size.id, loader.context) if isinstance(size, ast.Name) else []
    for bound in loader.file.bindings(given.id, loader.context):
        if isinstance(bound.value, ast.Constant) and bound.value.value is True and (branch := _of_held_out(bound)):
            beside = [other.value for other in sizes if other.node in branch.body] or [size]
            if not any(isinstance(value, ast.Constant) and value.value == 1 for value in beside):
                yield loader.file.place(bound.node, bound.context)


def _of_held_out(bound: Binding) -> ast.If | None:
    """The branch of `flag == "test"`, or of `flag in ("val", "test")`, that a name is bound in."""
    branch = bound.context.node
    if not isinstance(branch, ast.If) or bound.context.arm != "body" or not isinstance(branch.test, ast.Compare):
        return None
    asked, among = branch.test.ops[0], branch.test.comparators[0]
    parts = among.elts if isinstance(among, ast.List | ast.Tuple | ast.Set) else [among]
    words = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    splits = {split_of_name(word.lower()) for word in words}
    equal = isinstance(asked, ast.Eq | ast.In) and len(branch.test.ops) == 1 and len(words) == len(parts)
    return branch if equal and splits and splits <= {"val", "test"} else None


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
        (node, any(node in walk(each) for each in function.all(ast.While) if _is_for_ever(each)))
        for function in loader.call.file.functions
        if "yield" in function.text
        for node in function.all(ast.For)
        if ast.unparse(node.iter) in loader.names
    ]
    return bool(loops) and all(endless for _, endless in loops)


def _is_looked_at(loader: Loader) -> bool:
    """`for n, batch in enumerate(loader): show(batch); if n > 2: break`: no loop goes through all of it."""
    loops = [node for node in walk(around(loader.call)) if isinstance(node, ast.For)]
    loops = [loop for loop in loops if ast.unparse(iteration_of(loop).over) in loader.names]
    if loops:
        return all(any(isinstance(node, ast.Break) for node in walk(loop)) for loop in loops)
    return _is_begun_alone(loader)


def _is_begun_alone(loader: Loader) -> bool:
    """`batch = next(iter(loader))`, where nothing else reads it: the first batches are all that is wanted."""
    file = loader.call.file
    begun = {arg for call in file.calls("iter") for arg in call.node.args}
    nodes = (node for node in walk(file.module.source.tree) if isinstance(node, ast.Name | ast.Attribute))
    reads = [node for node in nodes if isinstance(node.ctx, ast.Load) and last_name(node) in loader.names]
    return bool(reads) and all(node in begun for node in reads)


def _repeats(function: Function) -> bool:
    """A generator that begins anew for ever."""
    return any(_is_for_ever(node) for node in function.nodes)


def _is_for_ever(node: ast.AST) -> bool:
    """`while True:` with a `yield` in it."""
    if not isinstance(node, ast.While) or not isinstance(node.test, ast.Constant) or not node.test.value:
        return False
    return any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in walk(node))
