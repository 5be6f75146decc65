"""collective-in-rank-branch: one rank waits for others that never come."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import Call, Context, File, Function, Sites, canonical
from mlcheck.lint.sites.branches import Branch, branches
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.ranks import lets_one_rank_in, mentions_rank

LOOKS_AT = "collective"
WORDS = ("distributed",)
_COLLECTIVES = (
    *("barrier", "all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "gather", "scatter"),
    *("all_to_all", "all_gather_object", "broadcast_object_list", "gather_object", "monitored_barrier"),
)
_NAMES = tuple(f"torch.distributed.{name}" for name in _COLLECTIVES)

_FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
_STATES = "torch.distributed.checkpoint.state_dict"
_GATHERED = (
    *(f"{_FSDP}.{name}" for name in ("state_dict_type", "full_optim_state_dict", "optim_state_dict")),
    *(f"{_STATES}.{name}" for name in ("get_model_state_dict", "get_optimizer_state_dict", "get_state_dict")),
)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*_NAMES)) if any(True for _ in facts.sites.mentioning(["distributed"])) else []
    facts.sites.seen["collective"] = len(calls)
    yield from _sharded_state(facts.sites)
    for call in calls:
        guard, left = _guard(call), _left_to_one(call)
        if guard is None and left is not None:
            guard, others = left.node, [each for each in calls if not _stands_in(each, left.held)]
        else:
            others = [each for each in calls if each is not call]
        if guard is None:
            yield from _called_by_one(call)
            yield from _let_through_by_one(call)
        if guard is None or call.argument("group") is not None or len(call.node.args) > 2:
            continue
        if not any(_answers(other, call, guard) for other in others):
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` needs all ranks, and this branch is taken by one: it hangs forever",
                call.place.location,
                help="move it out of the branch",
                related=(call.file.place(guard.test, call.context).location,),
            )


def _sharded_state(sites: Sites) -> Iterator[Finding]:
    """The weights of a sharded model, which all ranks put together, asked for by one."""
    for call in sites.calls(*_GATHERED):
        guard = _guard(call)
        if guard is not None and call.argument("group") is None and not _is_sharded_later(call):
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` gathers the shards of all ranks, and this branch is taken by one: "
                "it hangs forever",
                call.place.location,
                help="gather on all ranks, and save on one",
                related=(call.file.place(guard.test, call.context).location,),
            )


def _is_sharded_later(call: Call) -> bool:
    """Whether the model is still whole here: it is given to `fully_shard(model)` further down."""
    given = call.argument("model", 0)
    name = ast.unparse(given) if isinstance(given, ast.expr) else ""
    return any(
        isinstance(node, ast.Call)
        and node.lineno > call.node.lineno
        and any(word in ast.unparse(node.func).lower() for word in ("shard", "fsdp"))
        and any(ast.unparse(arg) == name for arg in node.args)
        for node in (call.function.nodes if call.function is not None else ())
    )


def _called_by_one(call: Call) -> Iterator[Finding]:
    """The function that it stands in, under no condition, is called by one rank alone wherever it is called."""
    function = call.function
    if function is None or conditions(call.context) or call.argument("group") is not None or len(call.node.args) > 2:
        return
    above = list(callers(call.file.sites, function)) if function.cls is None else []
    guards = [_guard(each) for each in above]
    found = [guard for guard in guards if guard is not None]
    if found and len(found) == len(guards) and not any(guard.orelse for guard in found):
        name = call.name.rpartition(".")[2]
        if any(True for _ in returns(function)):
            for each, guard in zip(above, found, strict=True):
                yield Finding(
                    f"`{function.name}` waits for all ranks in `{name}`, and this branch is taken by one: "
                    "it hangs forever",
                    each.place.location,
                    help="call it on all ranks, and use what it returns on the one",
                    related=(call.place.location, each.file.place(guard.test, each.context).location),
                )
            return
        yield Finding(
            f"`{name}` needs all ranks, and `{function.name}` is called by one: it hangs forever",
            call.place.location,
            help=f"move `{name}` out of the function, behind the branch of the one rank",
            related=(above[0].place.location,),
        )


def _let_through_by_one(call: Call) -> Iterator[Finding]:
    """A decorator of the project calls the function on one rank alone; here it waits for all, itself or in a helper."""
    if conditions(call.context) or call.argument("group") is not None or len(call.node.args) > 2:
        return
    function = call.function
    for place in (call, *(callers(call.file.sites, function) if function is not None and function.cls is None else ())):
        within = place.function
        guard = _guard_of_decorators(within) if within is not None and not conditions(place.context) else None
        if within is not None and guard is not None:
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` needs all ranks, and its decorator runs `{within.name}` on one: "
                "it hangs forever",
                place.place.location,
                help=f"leave it out of `{within.name}`, and do it on all ranks before",
                related=(guard,) if place is call else (guard, call.place.location),
            )


def _guard_of_decorators(function: Function) -> Location | None:
    """Where a decorator asks for the one rank; None where it may call the function on others too."""
    for decorator in function.node.decorator_list:
        maker = function.file.resolve(decorator, function.defined.context)
        if not isinstance(maker, Function) or not maker.parameters:
            continue
        given = next(iter(maker.parameters))
        runs = [
            found
            for found in maker.file.calls(given)
            if is_name(found.node.func, given) and any(found.node is node for node in maker.nodes)
        ]
        guards = [_guard(found) for found in runs]
        if len(runs) == 1 and guards[0] is not None:
            return maker.file.place(guards[0].test, runs[0].context).location
    return None


def _guard(call: Call) -> ast.If | None:
    """The `if` that lets one rank alone come here, when it has no other branch that may hold the answer."""
    for outer in call.context.outwards():
        if outer.kind in ("function", "lambda"):
            return None
        if (
            isinstance(outer.node, ast.If)
            and outer.arm == "body"
            and lets_one_rank_in(call.file, outer.node.test, outer)
        ):
            return None if _leads_elsewhere(call.file, outer.node, outer) else outer.node
    return None


def _left_to_one(call: Call) -> Branch | None:
    """`if rank != 0: continue` above the call, or an `else` of such a test: the other ranks do nothing else."""
    within = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    for branch in branches(within):
        if branch.held is branch.node.body or not lets_one_rank_in(call.file, branch.test, call.context):
            continue
        idle = all(isinstance(line, ast.Pass | ast.Continue) or ast.unparse(line) == "return" for line in branch.other)
        if idle and _stands_in(call, branch.held):
            return branch
    return None


def _stands_in(call: Call, lines: list[ast.stmt]) -> bool:
    return any(node is call.node for line in lines for node in walk(line))


def _leads_elsewhere(file: File, guard: ast.If, context: Context) -> bool:
    """Whether the other ranks may answer in a function of the project that they call."""
    calls = (node for line in guard.orelse for node in walk(line) if isinstance(node, ast.Call))
    return any(not isinstance(file.resolve(node.func, context), str) for node in calls)


def _answers(other: Call, call: Call, guard: ast.If) -> bool:
    """Whether the other ranks may meet it at another call of its kind that is theirs alone."""
    if canonical(other.name) != canonical(call.name) or other.file is not call.file:
        return False
    if isinstance(guard.body[-1], ast.Return) and other.function is call.function:
        return other.node.lineno > (guard.end_lineno or 0)  # this rank has left by then
    return any(
        isinstance(outer.node, ast.If)
        and (
            outer.node is guard
            or mentions_rank(outer.node.test)
            or lets_one_rank_in(other.file, outer.node.test, outer)
        )
        and not (outer.node is guard and outer.arm == "body")
        for outer in other.context.outwards()
    )
