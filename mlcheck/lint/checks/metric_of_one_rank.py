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
