"""loaded-on-one-rank: one rank loads weights into a model that is wrapped already, and the others keep their own."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.frameworks import owned
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.ranks import DDP, lets_one_rank_in, starts

LOOKS_AT = "distributed model"
WORDS = ("DistributedDataParallel",)
_TELLS = pattern(
    r"broadcast|_sync_module_states|(?:all_reduce|all_gather|scatter)\w*\([^)\n]*(?:\bp\b|param|weight|\.data)"
)


def check(facts: Facts) -> Iterator[Finding]:
    sites = facts.sites
    wraps = list(sites.calls(DDP))
    sites.seen[LOOKS_AT] = len(wraps)
    if not wraps or not sites.once(starts) or sites.once(owned):
        return
    for file in sites.mentioning(["load_state_dict"]):
        for call in file.calls("load_state_dict"):
            guard = _guard(call) or _guard_of_callers(call)
            func = call.node.func
            if guard is None or not isinstance(func, ast.Attribute) or not _is_wrapped(call, func.value):
                continue
            if not any(_TELLS.search(other.text) for other in (file, *(wrap.file for wrap in wraps))):
                yield Finding(
                    f"One rank alone loads the weights, and `{ast.unparse(func.value)}` is wrapped already: "
                    "the other ranks go on with weights of their own",
                    call.place.location,
                    help="load them on every rank, with `map_location`, or before `DistributedDataParallel(...)`",
                    related=(guard.location,),
                )


def _guard_of_callers(call: Call) -> Place | None:
    """The branch of one rank in which the function around it is called, where that is so of all calls."""
    asked = list(callers(call.file.sites, call.function)) if call.function is not None else []
    guards = [_guard(each) for each in asked]
    return guards[0] if guards and all(guards) else None


def _guard(call: Call) -> Place | None:
    """The branch of one rank that it stands in, where no other rank has a branch of its own."""
    for outer in call.context.outwards():
        if outer.kind in ("function", "lambda"):
            return None
        if not isinstance(outer.node, ast.If) or outer.arm != "body":
            continue
        if lets_one_rank_in(call.file, outer.node.test, outer):
            return call.file.place(outer.node.test, call.context) if not outer.node.orelse else None
    return None


def _is_wrapped(call: Call, owner: ast.expr) -> bool:
    """`model.module`, and what `DistributedDataParallel` returned."""
    if isinstance(owner, ast.Attribute) and owner.attr == "module":
        owner = owner.value
    found = origins(call.file, owner, call.context)
    return bool(found) and all(origin.name.endswith(".DistributedDataParallel") for origin in found)
