"""sharded-after-optimizer: FSDP takes a model apart whose whole parameters an optimizer was given before."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.training.optimizers import around, before_training, optimized, optimizers

LOOKS_AT = "sharded model"
WORDS = ("FullyShardedDataParallel", "fully_shard")
_GIVEN = pattern(r"""\[["']params["']\]\s*=[^=]""")
"""Other parameters are put into the groups of an optimizer."""
_MOVES = ("to", "cuda", "train")
_SHARDS = ("torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard")


def check(facts: Facts) -> Iterator[Finding]:
    sharded = list(facts.sites.calls(*_SHARDS))
    facts.sites.seen[LOOKS_AT] = len(sharded)
    made = facts.sites.once(optimizers) if sharded else ()
    for call, model in (each for optimizer in made for each in optimized(optimizer)):
        later = list(before_training(call))
        shards = [found for statement in later if (found := _shards(call, statement, model)) is not None]
        if not shards or _GIVEN.search(call.file.text) or _is_made_anew(call, later):
            continue
        yield Finding(
            f"`{model}` is sharded after its optimizer was made: the optimizer holds parameters that the "
            "model no longer has",
            call.file.place(shards[0], call.context).location,
            help="shard the model first, and make the optimizer of what that gives",
            related=(call.place.location,),
        )


def _shards(call: Call, statement: ast.stmt, model: str) -> ast.Call | None:
    """`model = FSDP(model, ...)` and `fully_shard(model)` as statements."""
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    for node in walk(value) if value is not None else ():
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.args[0]) == model:
            if call.file.called(node, call.context) in _SHARDS or _is_sharded_within(call, node, statement):
                return node
    return None


def _is_sharded_within(call: Call, node: ast.Call, statement: ast.stmt) -> bool:
    """`model = shard(model, device)`, a function that wraps what it is given first and does nothing else with it."""
    named = call.file.resolve(node.func, call.context) if isinstance(statement, ast.Assign) else None
    if not isinstance(named, Function) or named.receiver or named.node.decorator_list:
        return False
    given, answers = next(iter(named.parameters), ""), list(returns(named))
    if len(answers) != 1 or not isinstance(answers[0], ast.Call) or not answers[0].args:
        return False
    if named.file.called(answers[0], named.inner) not in _SHARDS:
        return False
    return is_name(before_methods(answers[0].args[0], _MOVES), given)


def _is_made_anew(call: Call, later: list[ast.stmt]) -> bool:
    """Whether what holds the optimizer is given another, by the same call or another."""
    made = [each for each in walk(around(call)) if isinstance(each, ast.Assign) and each.value is call.node]
    kept = {ast.unparse(target) for each in made for target in each.targets}
    targets = (target for each in later if isinstance(each, ast.Assign) for target in each.targets)
    return any(ast.unparse(target) in kept for target in targets)
