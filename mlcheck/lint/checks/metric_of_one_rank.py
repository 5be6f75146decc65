"""metric-of-one-rank: the held-out data is dealt out over the ranks, and nobody puts their results together."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Function, Sites
from mlcheck.lint.sites.ranks import is_for_evaluation, owned, starts

LOOKS_AT = "distributed sampler"
_SAMPLER = "torch.utils.data.DistributedSampler"
_TOGETHER = ("all_reduce", "all_gather", "gather", "reduce(", "reduce_", "metrics", "synchronize", "broadcast_object")


def check(facts: Facts) -> Iterator[Finding]:
    samplers = [call for call in facts.sites.calls(_SAMPLER) if is_for_evaluation(call)]
    facts.sites.seen[LOOKS_AT] = len(samplers)
    if not samplers or not facts.sites.once(starts) or owned(facts.sites):
        return
    if any(True for _ in facts.sites.mentioning(_TOGETHER, tests=True)):
        yield from _half_reduced(facts.sites)
        return
    for function in _evaluations(facts.sites):
        if (share := _share(function)) is not None:
            yield Finding(
                "Each rank evaluates its own part of the data, and this is the metric of that part alone",
                function.place(share).location,
                help="`dist.all_reduce` the sum and the count, and divide afterwards",
                related=(samplers[0].place.location,),
            )


def _evaluations(sites: Sites) -> Iterator[Function]:
    """Functions that loop over a loader without gradients, and train nothing."""
    for file in sites.mentioning(["no_grad", "inference_mode"]):
        for function in file.functions:
            text = file.module.text_of(function.node) + " ".join(map(ast.unparse, function.node.decorator_list))
            if ("no_grad" in text or "inference_mode" in text) and "backward" not in text:
                yield function


def _share(function: Function) -> ast.BinOp | None:
    """`correct / total` of what a loop over a loader has added up; `total` may be the size of the data."""
    for loop in function.nodes:
        if not isinstance(loop, ast.For) or "loader" not in ast.unparse(loop.iter).lower():
            continue
        added = {ast.unparse(node.target).split("[")[0] for node in walk(loop) if isinstance(node, ast.AugAssign)}
        for node in function.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and node.lineno > loop.lineno:
                if ast.unparse(node.left).split("[")[0].removesuffix(".item()") in added:
                    return node
    return None


def _half_reduced(sites: Sites) -> Iterator[Finding]:
    """`correct / total`, both added up over batches, where one alone of the two was reduced over the ranks."""
    for function in _evaluations(sites):
        reduces = [call for call in function.file.calls("all_reduce") if call.function is function]
        if not reduces or (share := _share(function)) is None:
            continue
        names = {part.id for call in reduces for part in walk(call.node) if isinstance(part, ast.Name)}
        sides = [_counted(function, side) for side in (share.left, share.right)]
        if "" not in sides and (sides[0] in names) != (sides[1] in names):
            alone = sides[0] if sides[1] in names else sides[1]
            yield Finding(
                f"`{alone}` is of this rank alone, and what it is divided {'by' if alone == sides[0] else 'into'} "
                "is the sum of all ranks",
                function.place(share).location,
                help=f"`dist.all_reduce({alone})` too, before they are divided",
                related=(reduces[0].place.location,),
            )


def _counted(function: Function, side: ast.expr) -> str:
    """The plain variable that a loop adds up and nothing else changes; "" for all else."""
    while isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and not side.args:
        side = side.func.value
    if not isinstance(side, ast.Name):
        return ""
    added = [node for node in function.nodes if isinstance(node, ast.AugAssign)]
    bound = function.file.bindings(side.id, function.inner)
    grows = any(isinstance(node.target, ast.Name) and node.target.id == side.id for node in added)
    return side.id if grows and len(bound) == 2 and side.id not in function.parameters else ""
