"""metric-of-one-rank: the held-out data is dealt out over the ranks, and nobody puts their results together."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites import OPEN, Call, Class, File, Function, Sites
from mlcheck.lint.sites.data.makers import made
from mlcheck.lint.sites.evaluation.accelerated import of_one_process
from mlcheck.lint.sites.evaluation.gathered import score_of_gathered
from mlcheck.lint.sites.evaluation.without_gradients import blocks_without, evaluating_files, quiet_calls
from mlcheck.lint.sites.frameworks import owned
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.loop_means import mean_over_loop
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.ranks import is_for_evaluation, starts
from mlcheck.lint.sites.training.lightning import local_losses
from mlcheck.lint.values import split_of_name

LOOKS_AT = "distributed sampler"
WORDS = ("DistributedSampler", "all_reduce", "Trainer(", "Accelerator")
_MEAN = pattern(r"(?:^|_)(?:mean|avg|average)(?:_|$)")
_DIVIDES = ("world_size", "AVG", "div", "num_gpus", "n_gpu", "num_processes")
_SAMPLER = "torch.utils.data.DistributedSampler"
_LOADER = pattern(r"loader|(?:\b|_)(?:dl|iter)\b|batches", re.IGNORECASE)
_FILLS = ("update", "add")
_AVERAGES = ("avg", "average", "mean")
_TOGETHER = (
    "all_reduce",
    "all_gather",
    "gather",
    "reduce(",
    "reduce_",
    "torchmetrics",
    "torcheval",
    "synchronize",
    "broadcast_object",
)


def check(facts: Facts) -> Iterator[Finding]:
    yield from _sums_called_means(facts.sites)
    yield from _sums_of_means(facts.sites)
    for log, trainer in local_losses(facts.sites):
        yield Finding(
            "Each rank logs the loss of its own part of the data, and that of rank 0 is what callbacks and loggers see",
            log.place.location,
            help="pass `sync_dist=True`",
            related=(trainer.place.location,),
        )
    for alone in of_one_process(facts.sites):
        yield Finding(
            "The Accelerator deals these batches out, and this is the metric of one process's part alone",
            alone.function.place(alone.score).location,
            help="`accelerator.gather_for_metrics((predictions, labels))` before they are counted",
            related=(alone.prepared.place.location,),
        )
    samplers = [call for call in facts.sites.calls(_SAMPLER) if is_for_evaluation(call) or _serves_evaluation(call)]
    facts.sites.seen[LOOKS_AT] = len(samplers)
    asked = any(sampler.argument("num_replicas", 1) is None for sampler in samplers)  # of a process group that runs
    if not samplers or not (asked or facts.sites.once(starts)) or owned(facts.sites):
        return
    if any(True for _ in facts.sites.mentioning(_TOGETHER, tests=True)):
        yield from _half_reduced(facts)
        return
    quiet = quiet_calls(facts)
    for function in _evaluations(facts, quiet):
        share: ast.expr | None = _share(function, quiet) or _average(function, quiet)
        share = share or score_of_gathered(function, _loops(function, quiet))
        if share is not None:
            yield Finding(
                "Each rank evaluates its own part of the data, and this is the metric of that part alone",
                function.place(share).location,
                help="`dist.all_reduce` the sum and the count, and divide afterwards",
                related=(samplers[0].place.location,),
            )


def _serves_evaluation(sampler: Call) -> bool:
    """Whether it stands in a function that makes the loader of held-out data too: `val = make_loader(root, "val")`.

    Or it is one of a table: `{name: DistributedSampler(data) for name, data in sets.items()}` of `{"val": ...}`.
    """
    table = next((outer.node for outer in sampler.context.outwards() if outer.kind == "comprehension"), None)
    if isinstance(table, ast.DictComp) and table.value is sampler.node and len(table.generators) == 1:
        over = before_methods(table.generators[0].iter, ("items", "keys"))
        sets, _ = source(sampler.file, over, sampler.context)
        keys = sets.keys if isinstance(sets, ast.Dict) else sets.elts if isinstance(sets, ast.Tuple | ast.List) else []
        return any(isinstance(key, ast.Constant) and split_of_name(str(key.value)) in ("val", "test") for key in keys)
    return any(
        each.split in ("val", "test") and not each.entered.leaves_out(sampler.node, sampler.context)
        for each in sampler.file.sites.once(made)
        if each.loader.call.function is sampler.function
    )


def _evaluations(facts: Facts, quiet: frozenset[ast.AST]) -> Iterator[Function]:
    """Functions in which something is computed without gradients."""
    for file in evaluating_files(facts):
        for function in file.functions:
            text = function.text + " ".join(map(ast.unparse, function.node.decorator_list))
            if "no_grad" in text or "inference_mode" in text or not quiet.isdisjoint(function.nodes):
                yield function


def _share(function: Function, quiet: frozenset[ast.AST]) -> ast.BinOp | None:
    """`correct / total` of what a loop over a loader has added up; `total` may be the size of the data."""
    for loop in _loops(function, quiet):
        added = {ast.unparse(node.target).split("[")[0] for node in walk(loop) if isinstance(node, ast.AugAssign)}
        for node in function.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and node.lineno > loop.lineno:
                if ast.unparse(node.left).split("[")[0].removesuffix(".item()") in added:
                    return node
    return None


def _loops(function: Function, quiet: frozenset[ast.AST]) -> Iterator[ast.For]:
    """The loops over a loader; in a function that trains as well, those whose gradients are switched off."""
    loops = [n for n in function.nodes if isinstance(n, ast.For) and _LOADER.search(ast.unparse(n.iter))]
    if "backward" not in function.text:
        return iter(loops)
    under = set(blocks_without(function.nodes))
    return (
        n for n in loops if n in under or ("backward" not in function.file.module.text_of(n) and quiet & {*walk(n)})
    )


def _average(function: Function, quiet: frozenset[ast.AST]) -> ast.expr | None:
    """`meter.avg`, or `meter.compute()`, of a meter of the project's own that a loop over a loader has filled."""
    for loop in _loops(function, quiet):
        fills = [
            node
            for node in walk(loop)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS
        ]
        filled = {ast.unparse(node.func.value): node for node in fills if isinstance(node.func, ast.Attribute)}
        for node in function.nodes if filled else ():
            asked = node.func if isinstance(node, ast.Call) and not node.args else node
            if not isinstance(asked, ast.Attribute) or asked.lineno <= (loop.end_lineno or 0):
                continue
            fill = filled.get(ast.unparse(asked.value))
            if fill is not None and (asked.attr in _AVERAGES or _compares(fill, loop)):
                if _is_average(function, asked):
                    return asked
    return None


def _compares(fill: ast.Call, loop: ast.For) -> bool:
    """Whether a meter is given what the loader brought, and not only how much of it there was, or how long it took."""
    brought = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    counted = ("len(", ".size(", ".shape", "time")
    given = [arg for arg in fill.args if not any(word in ast.unparse(arg) for word in counted)]
    return any(isinstance(part, ast.Name) and part.id in brought for arg in given for part in walk(arg))


def _is_average(function: Function, asked: ast.Attribute) -> bool:
    """Whether a class of the project answers with an average, by its name or as it divides."""
    made, context = source(function.file, asked.value, function.inner)
    cls = function.file.resolve(made.func, context) if isinstance(made, ast.Call) else None
    if not isinstance(cls, Class) or cls.libraries - {"builtins.object"}:
        return False
    method = cls.find(asked.attr)
    divides = [node for node in (method.nodes if method is not None else ()) if isinstance(node, ast.BinOp)]
    return asked.attr in _AVERAGES or any(isinstance(node.op, ast.Div) for node in divides)


def _sums_called_means(sites: Sites) -> Iterator[Finding]:
    """`def reduce_mean(loss): dist.all_reduce(loss); return loss`: nobody divides by the number of ranks."""
    for call in sites.calls("torch.distributed.all_reduce"):
        function, reduced = call.function, call.argument("tensor", 0)
        if function is None or not _MEAN.search(function.name) or not isinstance(reduced, ast.Name):
            continue
        around = [other.function or other.file for other in callers(sites, function)]
        returned = [node.id for node in returns(function) if isinstance(node, ast.Name)]
        if returned == [reduced.id] and around and not any(map(_divides, [function, *around])):
            yield Finding(
                f"`{function.name}` sums over the ranks and divides by nothing: its result grows with their number",
                call.place.location,
                help=f"divide by their number: `return {reduced.id} / dist.get_world_size()`",
            )


def _sums_of_means(sites: Sites) -> Iterator[Finding]:
    """`total /= len(loader)`, the mean over this rank's batches, and then `dist.all_reduce(total)`."""
    for call in sites.calls("torch.distributed.all_reduce"):
        function, reduced, op = call.function, call.argument("tensor", 0), call.argument("op", 1)
        if function is None or not isinstance(reduced, ast.Name):
            continue
        if op is not None and (op is OPEN or last_name(op) != "SUM"):
            continue
        mean = mean_over_loop(function, reduced.id, call.node.lineno)
        around = [other.function or other.file for other in callers(sites, function)]
        returned = [before_methods(node, ("item", "cpu", "detach")) for node in returns(function)]
        if mean is None or not around or any(map(_divides, around)) or _divides(function, mean):
            continue
        if all(is_name(node, reduced.id) for node in returned) and returned:
            yield Finding(
                f"`{reduced.id}` is the mean of each rank, and the sum of these is divided by nothing",
                call.place.location,
                help="divide by their number, `dist.get_world_size()`; or add up the sums and the counts",
                related=(function.place(mean).location,),
            )


def _divides(scope: Function | File, besides: ast.AST | None = None) -> bool:
    text = scope.text
    nodes = scope.nodes if isinstance(scope, Function) else walk(scope.module.source.tree)
    others = (node for node in nodes if isinstance(node, ast.BinOp | ast.AugAssign) and node is not besides)
    by_sign = any(isinstance(node.op, ast.Div) for node in others)
    return by_sign or any(word in text for word in _DIVIDES)


def _half_reduced(facts: Facts) -> Iterator[Finding]:
    """`correct / total`, both added up over batches, where one alone of the two was reduced over the ranks."""
    quiet = quiet_calls(facts)
    for function in _evaluations(facts, quiet):
        reduces = [call for call in function.file.calls("all_reduce") if call.function is function]
        if not reduces or (share := _share(function, quiet)) is None:
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
    grows = any(is_name(node.target, side.id) for node in added)
    return side.id if grows and len(bound) == 2 and side.id not in function.parameters else ""
