"""same-layer-repeated: `[Block(8)] * 6` in a stack is one block under six names."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.modules import holds_parameters

LOOKS_AT = "stack of layers"
WORDS = ("ModuleList", "Sequential")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.nn.ModuleList", "torch.nn.Sequential"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        for arg in call.node.args:
            made, where = call.file.value(arg.value if isinstance(arg, ast.Starred) else arg, call.context)
            for layers, times in _repeated(made):
                layer = next((each for each in layers if holds_parameters(call.file, each, where)), None)
                if layer is None or call.file.constant(times, where) in (0, 1):
                    continue
                named = ast.unparse(layer.func)
                yield Finding(
                    f"`{named}` is created once and repeated in the stack: all its copies share their weights",
                    call.file.place(layer, where).location,
                    help=f"`[{named}(...) for _ in range({ast.unparse(times)})]`",
                    related=(call.place.location,),
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
