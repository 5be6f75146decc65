"""same-layer-repeated: `[Block(8)] * 6` in a stack is one block under six names."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.layers.modules import holds_parameters

LOOKS_AT = "stack of layers"
WORDS = ("ModuleList", "Sequential")
_SHARED = pattern(r"shar(?:e|es|ed|ing)(?:\b|_)|(?:\b|_)ti(?:e|ed|es|ing)(?:\b|_)", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.nn.ModuleList", "torch.nn.Sequential"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        for arg in call.node.args:
            made, where = call.file.value(arg.value if isinstance(arg, ast.Starred) else arg, call.context)
            for layers, times in _repeated(made):
                layer = next((each for each in layers if holds_parameters(call.file, each, where)), None)
                if layer is None or call.file.constant(times, where) in (0, 1) or _is_meant(call):
                    continue
                named = ast.unparse(layer.func)
                yield Finding(
                    f"`{named}` is created once and repeated in the stack: all its copies share their weights",
                    call.file.place(layer, where).location,
                    help=f"`[{named}(...) for _ in range({ast.unparse(times)})]`",
                    related=(call.place.location,),
                )


def _is_meant(call: Call) -> bool:
    """Whether the class or the function around says that its layers share their weights."""
    return any(
        part is not None and _SHARED.search(f"{part.name} {ast.get_docstring(part.node)}")
        for part in (call.cls, call.function)
    )


def _repeated(node: ast.expr) -> Iterator[tuple[list[ast.Call], ast.expr]]:
    """The layers of `[Block(8), nn.ReLU()] * n` that are made there, and how often; also of one part of a sum."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _repeated(left)
            yield from _repeated(right)
        case ast.BinOp(left=ast.List(elts=elts), op=ast.Mult(), right=times):
            yield [each for each in elts if isinstance(each, ast.Call)], times
        case ast.BinOp(left=times, op=ast.Mult(), right=ast.List(elts=elts)):
            yield [each for each in elts if isinstance(each, ast.Call)], times
