"""argmax-over-batch: the one highest of all scores is compared with the labels of a batch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.evaluation.hits import MOVES, Counted, hits
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.origins import callers, origins, sole

LOOKS_AT = "argmax"
WORDS = ("argmax",)
_LOADER = "torch.utils.data.DataLoader"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(len(file.calls("argmax")) for file in facts.sites.mentioning(WORDS))
    if not facts.sites.seen[LOOKS_AT] or any(map(_is_of_single_samples, facts.sites.calls(_LOADER))):
        return
    told = set()
    for file in facts.sites.mentioning(["==", ".eq(", "torch.eq"]):
        for counted in hits(file) if "argmax" in file.text or file.imports else ():
            chosen = _highest_of_all(counted)
            if chosen is None or not _gets_batches(counted.call) or chosen.place.spot in told:
                continue
            told.add(chosen.place.spot)
            yield Finding(
                "`argmax` without `dim` gives one index for the whole batch, and every label is compared with it",
                chosen.place.location,
                help="`argmax(dim=1)`: the highest score of each sample",
                related=() if chosen.place.node in walk(counted.call.node) else (counted.call.place.location,),
            )


def _is_of_single_samples(loader: Call) -> bool:
    """Whether its batches are of one sample: then the one number is the right one."""
    return loader.constant("batch_size", 1, default=1) == 1


def _gets_batches(call: Call) -> bool:
    """Whether the loop around goes over a loader; outside of a loop, whether the hits are averaged over labels."""
    around = call.function.node if call.function is not None else call.file.module.source.tree
    loops = [node for node in walk(around) if isinstance(node, ast.For) and call.node in walk(node)]
    if not loops:
        told = any(word in ast.unparse(around) for word in ("mean(", "len(", ".shape", ".size("))
        users = callers(call.file.sites, call.function) if call.function is not None and not told else ()
        return told or any(map(_is_of_loader, users))
    return _goes_over_loader(call.file, loops[-1], call.context)


def _is_of_loader(call: Call) -> bool:
    """Whether the innermost loop around a call goes over a loader, in a comprehension too."""
    for outer in call.context.outwards():
        turns = [outer.node] if isinstance(outer.node, ast.For) else getattr(outer.node, "generators", [])
        if turns:
            return _goes_over_loader(call.file, turns[-1], outer)
    return False


def _goes_over_loader(file: File, loop: ast.For | ast.comprehension, context: Context) -> bool:
    over = iteration_of(loop).over
    made = origins(file, over, context)
    return "loader" in ast.unparse(over).lower() or any(origin.name == _LOADER for origin in made)


def _is_of_all(file: File, node: ast.AST, context: Context) -> bool:
    """`torch.argmax(x)`, `np.argmax(x)` and `x.argmax()`, which go through all dimensions at once."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    named = file.resolve(node.func, context)
    if isinstance(named, str):
        return named in ("torch.argmax", "numpy.argmax") and len(node.args) == 1
    return named is None and isinstance(node.func, ast.Attribute) and node.func.attr == "argmax" and not node.args


def _highest_of_all(counted: Counted) -> Call | None:
    """The `argmax` that one of both sides is, where the other is no such number itself."""
    for side, other in ((counted.left, counted.right), (counted.right, counted.left)):
        found = sole(counted.call.file, before_methods(side, MOVES), counted.call.context)
        node = before_methods(found.node, MOVES) if found is not None else None
        if found is None or found.item >= 0 or not isinstance(node, ast.Call):
            continue
        scores = node.args[0] if node.args else node.func
        if not isinstance(scores, ast.Subscript) and _is_of_all(found.file, node, found.context):
            return None if _is_of_one(counted.call, other) else Call(found.file, node, found.context)
    return None


def _is_of_one(call: Call, other: ast.expr) -> bool:
    """A number, the label of one sample (`labels[i]`), or the highest of all again."""
    made, where = call.file.value(other, call.context)
    if isinstance(made, ast.Subscript | ast.Constant) or isinstance(other, ast.Subscript | ast.Constant):
        return True
    inner = before_methods(made, MOVES)
    return _is_of_all(call.file, inner, where) or (isinstance(made, ast.Call) and made is not inner)
