"""argmax-over-batch: the one highest of all scores is compared with the labels of a batch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "argmax"
WORDS = ("argmax",)
_LOADER = "torch.utils.data.DataLoader"
_COUNTS = ("sum", "mean")
_MOVES = ("item", "cpu", "numpy", "detach", "float", "double", "int", "long")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if any(map(_is_of_single_samples, facts.sites.calls(_LOADER))):
        return
    for file in facts.sites.mentioning(WORDS):
        for call in file.calls("argmax"):
            facts.sites.seen[LOOKS_AT] += 1
            if not _is_of_all(file, call.node, call.context):
                continue
            scores = call.node.args[0] if call.node.args else call.node.func
            if _is_counted(call) and not isinstance(scores, ast.Subscript) and _gets_batches(call):
                yield Finding(
                    "`argmax` without `dim` gives one index for the whole batch, and every label is compared with it",
                    call.place.location,
                    help="`argmax(dim=1)`: the highest score of each sample",
                )


def _is_of_single_samples(loader: Call) -> bool:
    """Whether its batches are of one sample: then the one number is the right one."""
    return loader.constant("batch_size", 1, default=1) == 1


def _gets_batches(call: Call) -> bool:
    """Whether the loop around goes over a loader; outside of a loop, whether the hits are averaged over labels."""
    around = call.function.node if call.function is not None else call.file.module.source.tree
    loops = [node for node in walk(around) if isinstance(node, ast.For) and call.node in walk(node)]
    if not loops:
        return any(word in ast.unparse(around) for word in ("mean(", "len(", ".shape", ".size("))
    over = iteration_of(loops[-1]).over
    made = origins(call.file, over, call.context)
    return "loader" in ast.unparse(over).lower() or any(origin.name == _LOADER for origin in made)


def _is_of_all(file: File, node: ast.AST, context: Context) -> bool:
    """`torch.argmax(x)`, `np.argmax(x)` and `x.argmax()`, which go through all dimensions at once."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    named = file.resolve(node.func, context)
    if isinstance(named, str):
        return named in ("torch.argmax", "numpy.argmax") and len(node.args) == 1
    return named is None and isinstance(node.func, ast.Attribute) and node.func.attr == "argmax" and not node.args


def _is_counted(call: Call) -> bool:
    """Whether it is one side of `(... == labels).sum()`, where the other side is no such number itself."""
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    for node in nodes:
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(func, ast.Attribute) or func.attr not in _COUNTS:
            continue
        match before_methods(func.value, _MOVES):
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]) if call.node in (left, right):
                return not _is_of_one(call, right if call.node is left else left)
    return False


def _is_of_one(call: Call, other: ast.expr) -> bool:
    """A number, the label of one sample (`labels[i]`), or the highest of all again."""
    made, where = call.file.value(other, call.context)
    if isinstance(made, ast.Subscript | ast.Constant) or isinstance(other, ast.Subscript | ast.Constant):
        return True
    inner = before_methods(made, _MOVES)
    return _is_of_all(call.file, inner, where) or (isinstance(made, ast.Call) and made is not inner)
