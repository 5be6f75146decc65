"""moved-after-ddp: a model is moved or cast after DistributedDataParallel has wrapped it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.origins import callers, origins, returns
from mlcheck.lint.sites.ranks import DDP
from mlcheck.lint.sites.training.optimizers import around

LOOKS_AT = "distributed model"
WORDS = ("DistributedDataParallel",)
_MOVES = ("to", "cuda", "cpu", "half", "float", "double", "bfloat16")


def check(facts: Facts) -> Iterator[Finding]:
    wraps = list(facts.sites.calls(DDP))
    facts.sites.seen["distributed model"] = len(wraps)
    for wrap in (*wraps, *(asked for made in wraps for asked in _asked(made))):
        for name in (*wrap.file.names_given(wrap.node), *_attributes(wrap)):
            move = _move(wrap, name)
            if move is not None:
                yield Finding(
                    f"`{name}` is moved after it was wrapped: the buckets that average its gradients "
                    "stay with the old parameters",
                    move.place.location,
                    help="move the model first, wrap it last",
                    related=(wrap.place.location,),
                )


def _asked(wrap: Call) -> Iterator[Call]:
    """The calls of a function that wraps what it is given, and returns that without having moved it."""
    function = wrap.function
    if function is None or any(call.function is function for call in wrap.file.calls(*_MOVES)):
        return
    answers = [origin for each in returns(function) for origin in origins(wrap.file, each, function.inner)]
    if any(origin.node is wrap.node for origin in answers):
        yield from callers(wrap.file.sites, function)


def _attributes(wrap: Call) -> Iterator[str]:
    """`self.model` of `self.model = DDP(...)`."""
    for assigned in wrap.file.walk.attributes:
        if assigned.value is wrap.node:
            yield ast.unparse(assigned.target)


def _move(wrap: Call, name: str) -> Call | None:
    """The first move of the name after the wrap in the same function, with nothing bound to it in between."""
    for call in wrap.file.calls(*_MOVES):
        owner = call.node.func
        if not isinstance(owner, ast.Attribute) or call.node.lineno <= (wrap.node.end_lineno or 0):
            continue
        if ast.unparse(owner.value) != name or call.function is not wrap.function:
            continue
        between = [line for line in _bound_at(wrap, name) if wrap.node.lineno < line < call.node.lineno]
        if between or wrap.context.excludes(call.context) or _has_trained(wrap, call, name):
            return None
        return None if _was_there(wrap, call) else call
    return None


def _bound_at(wrap: Call, name: str) -> list[int]:
    """The lines that bind the name or set the attribute."""
    lines = [getattr(binding.node, "lineno", 0) for binding in wrap.file.bindings(name, wrap.context)]
    sets = (each for each in wrap.file.walk.attributes if ast.unparse(each.target) == name)
    return lines + [each.node.lineno for each in sets]


def _was_there(wrap: Call, move: Call) -> bool:
    """Whether the same move came before the wrap: the second finds nothing left to move."""
    again, name = ast.unparse(move.node), ast.unparse(move.node.func).rpartition(".")[0]
    for call in wrap.file.calls(last_name(move.node.func)):
        if call.function is not wrap.function or call.node.lineno >= wrap.node.lineno:
            continue
        if ast.unparse(call.node) == again:
            return True
        as_made = again.removeprefix(name)  # `.to(device)` of `model = Net().to(device)`
        given = (*wrap.file.names_given(call.node), *_attributes(call))
        if name in given and ast.unparse(call.node).endswith(as_made):
            return True
    return False


def _has_trained(wrap: Call, move: Call, name: str) -> bool:
    """Whether the model was called, or handed to somebody, before it is moved: off the GPU at the end, perhaps."""
    lines = range((wrap.node.end_lineno or 0) + 1, move.node.lineno)
    return any(
        isinstance(node, ast.Call) and any(ast.unparse(part) == name for part in (node.func, *node.args))
        for node in walk(around(wrap))
        if getattr(node, "lineno", 0) in lines
    )
