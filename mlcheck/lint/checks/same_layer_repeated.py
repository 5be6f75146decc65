"""same-layer-repeated: `[Block(8)] * 6` in a stack is one block under six names."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.layers.repeated import Repeated, repeated

LOOKS_AT = "stack of layers"
WORDS = ("ModuleList", "Sequential")
_SHARED = pattern(r"shar(?:e|es|ed|ing)(?:\b|_)|(?:\b|_)ti(?:e|ed|es|ing)(?:\b|_)", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.nn.ModuleList", "torch.nn.Sequential"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        for found in repeated(call):
            if not _is_meant(call, found):
                layer = found.layer
                named = ast.unparse(layer.node.func) if isinstance(layer.node, ast.Call) else ""
                place = layer.file.place(layer.node, layer.context)
                turn = found.turn.file.place(found.turn.node, found.turn.context) if found.turn is not None else place
                times = f"range({ast.unparse(found.times)})" if found.times is not None else "..."
                yield Finding(
                    f"`{named}` is created once and repeated in the stack: all its copies share their weights",
                    turn.location,
                    help=f"`[{named}(...) for _ in {times}]`",
                    related=((call.place if found.turn is None else place).location,),
                )


def _is_meant(call: Call, found: Repeated) -> bool:
    """Whether the class or the function around says that its layers share their weights, or a name does."""
    layer = found.layer
    file, made = layer.file, layer.context
    around = [call.cls, call.function, file.class_around(made), file.function_around(made)]
    words = [f"{part.name} {ast.get_docstring(part.node)}" for part in around if part is not None]
    words += file.names_given(layer.node)
    words += [ast.unparse(outer.node.test) for outer in call.context.outwards() if isinstance(outer.node, ast.If)]
    return any(_SHARED.search(each) for each in words)
