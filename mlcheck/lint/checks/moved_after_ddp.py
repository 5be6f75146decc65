"""moved-after-ddp: a model is moved or cast after DistributedDataParallel has wrapped it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.ranks import DDP

LOOKS_AT = "distributed model"
_MOVES = ("to", "cuda", "cpu", "half", "float", "double", "bfloat16")


def check(facts: Facts) -> Iterator[Finding]:
    wraps = list(facts.sites.calls(DDP))
    facts.sites.seen["distributed model"] = len(wraps)
    for wrap in wraps:
        for name in wrap.file.names_given(wrap.node):
            move = _move(wrap, name)
            if move is not None:
                yield Finding(
                    f"`{name}` is moved after it was wrapped: the buckets that average its gradients "
                    "stay with the old parameters",
                    move.place.location,
                    help="move the model first, wrap it last",
                    related=(wrap.place.location,),
                )


def _move(wrap: Call, name: str) -> Call | None:
    """The first move of the name after the wrap in the same function, with nothing bound to it in between."""
    for call in wrap.file.calls(*_MOVES):
        owner = call.node.func
        if not isinstance(owner, ast.Attribute) or call.node.lineno <= (wrap.node.end_lineno or 0):
            continue
        if not isinstance(owner.value, ast.Name) or owner.value.id != name or call.function is not wrap.function:
            continue
        bindings = wrap.file.bindings(name, wrap.context)
        between = [
            binding for binding in bindings if wrap.node.lineno < getattr(binding.node, "lineno", 0) < call.node.lineno
        ]
        return None if between or wrap.context.excludes(call.context) else call
    return None
