"""save-on-all-ranks: all processes write the same checkpoint file at once."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.frameworks import owned_around
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.ranks import DDP, mentions_rank, runs_on_every_rank, starts
from mlcheck.lint.sites.weights.read_too_early import read_too_early

LOOKS_AT = "distributed start"
WORDS = ("init_process_group", "DistributedDataParallel")
_SHARDED = ("FSDP", "FullyShardedDataParallel", "fully_shard", "checkpoint.state_dict", "DTensor", "tensor.parallel")


def check(facts: Facts) -> Iterator[Finding]:
    if not facts.sites.once(starts):
        return
    for call in facts.sites.calls("torch.save"):
        if owned_around(call.file) or any(word in call.file.text for word in _SHARDED):
            continue
        if _names_rank(call) or _is_in_memory(call) or _is_of_own_share(call):
            continue
        if runs_on_every_rank(facts.sites, call):
            yield Finding(
                "Every process writes this file at once: it can end up broken, or from any of the ranks",
                call.place.location,
                help="save on one rank alone, `if dist.get_rank() == 0:`, and let the others wait at a barrier",
            )
    for load, saved in read_too_early(facts.sites):
        if owned_around(load.file):
            continue
        yield Finding(
            "The other ranks read this file while one may still write it: nothing makes them wait",
            load.place.location,
            help="`dist.barrier()` between the two",
            related=(load.file.place(saved, load.context).location,),
        )


def _is_in_memory(call: Call) -> bool:
    """`torch.save(state, io.BytesIO())`."""
    target = call.argument("f", 1)
    found = origins(call.file, target, call.context) if target is not None else []
    return any(each.name == "io.BytesIO" for each in found)


def _is_of_own_share(call: Call) -> bool:
    """In a loop, with `names = shares[rank]` above it: each rank goes through its own share of the work."""
    function = call.function
    lines = (n for n in function.nodes if isinstance(n, ast.Assign)) if function is not None and call.loops else ()
    return any(isinstance(line.value, ast.Subscript) and mentions_rank(line.value.slice) for line in lines)


def _names_rank(call: Call) -> bool:
    """Whether the file's name, or what is saved, differs by rank."""
    for node in (*call.node.args, *(word.value for word in call.node.keywords)):
        value, _ = call.file.value(node, call.context)
        if _differs(call, value) or _differs(call, node):
            return True
        if any(isinstance(part, ast.Name) and _depends(call, part) for part in walk(value)):
            return True
    return False


def _depends(call: Call, name: ast.Name) -> bool:
    return any(
        isinstance(binding.value, ast.expr) and _differs(call, binding.value)
        for binding in call.file.bindings(name.id, call.context)
    )


def _differs(call: Call, node: ast.expr) -> bool:
    """Whether the rank is named in an expression; on which device a model was put makes no difference."""
    if isinstance(node, ast.IfExp):
        return any(_differs(call, part) for part in (node.test, node.body, node.orelse))
    while isinstance(node, ast.Call):
        if node.args and (call.file.resolve(node.func, call.context) == DDP or _wraps(call, node)):
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
            node = node.func.value
        else:
            break
    return mentions_rank(node)


def _wraps(call: Call, node: ast.Call) -> bool:
    """`distribute(model, rank)`: a function of the project that gives back what it was given first, within DDP."""
    function = call.file.resolve(node.func, call.context)
    if not isinstance(function, Function) or function.cls is not None:
        return False
    first = [arg.arg for arg in function.node.args.args[:1]]
    answers = [source(function.file, each, function.inner)[0] for each in returns(function)]
    wrapped = [
        each.args[0] if isinstance(each, ast.Call) and function.file.resolve(each.func, function.inner) == DDP else each
        for each in answers
        if not isinstance(each, ast.Call) or each.args
    ]
    return bool(answers) and len(wrapped) == len(answers) and all(last_name(each) in first for each in wrapped)
