"""checkpoint-on-first-gpu: every rank loads the checkpoint onto the GPU that it was saved from."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.frameworks import owned
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.ranks import runs_on_every_rank, starts

LOOKS_AT = "distributed start"
WORDS = ("init_process_group", "DistributedDataParallel")
_OTHERWISE = ("set_default_device", "with torch.device", "FSDP", "FullyShardedDataParallel", "fully_shard", "gloo")


def check(facts: Facts) -> Iterator[Finding]:
    if not facts.sites.once(starts) or facts.sites.once(owned):
        return
    for call in facts.sites.calls("torch.load"):
        if call.argument("map_location", 1) is not None or any(word in call.file.text for word in _OTHERWISE):
            continue
        if _is_on_gpu(call) and _is_state(call) and runs_on_every_rank(facts.sites, call):
            yield Finding(
                "Every rank loads this onto the GPU it was saved from, mostly the first: its memory fills up",
                call.place.location,
                help='pass `map_location="cpu"`, or the device of the rank',
            )


def _is_on_gpu(call: Call) -> bool:
    """Whether the function around it, or one that calls that, puts things on a GPU."""
    around = [call.function] if call.function is not None else []
    around += [above.function for each in around for above in callers(call.file.sites, each) if above.function]
    texts = [each.text for each in around] or [call.file.text]
    return any(word in text for text in texts for word in (".cuda(", "set_device(", '"cuda', "'cuda", ".to("))


def _is_state(loaded: Call) -> bool:
    """Whether weights or an optimizer's state are taken from it, here or by who calls this; data lies on the CPU."""
    todo, seen = [loaded], set[ast.AST]()
    while todo:
        call = todo.pop()
        if call.node in seen:
            continue
        seen.add(call.node)
        function = call.function
        nodes = function.nodes if function is not None else list(walk(call.file.module.source.tree))
        names = _names(call, nodes)
        given = [argument for node in nodes if _is_taking(node) for argument in node.args]
        if any(_reads(argument, call.node, names) for argument in given):
            return True
        if function is not None and any(_reads(node, call.node, names) for node in returns(function)):
            todo += callers(call.file.sites, function)
    return False


def _is_taking(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load_state_dict"


def _names(call: Call, nodes: list[ast.AST]) -> set[str]:
    """The names of what was loaded, and of what is taken from it."""
    names = {*call.file.names_given(call.node)}
    for node in nodes:
        if isinstance(node, ast.Assign) and _reads(node.value, call.node, names):
            names |= {part.id for target in node.targets for part in walk(target) if isinstance(part, ast.Name)}
    return names


def _reads(node: ast.AST, made: ast.Call, names: set[str]) -> bool:
    return any(part is made or (isinstance(part, ast.Name) and part.id in names) for part in walk(node))
