"""cat-in-loop: a tensor that is copied in full in every iteration just to append to it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, reads_of, walk
from mlcheck.lint.sites import Call

LOOKS_AT = "concatenation"
_JOINS = ("torch.cat", "torch.concat", "torch.vstack", "torch.hstack", "numpy.concatenate", "numpy.append")


def check(facts: Facts) -> Iterator[Finding]:
    calls = [call for call in facts.sites.calls(*_JOINS) if call.loops]
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        loop = call.loops[0].node
        grown = _grown(call, loop)
        if grown and not _is_read_otherwise(loop, grown, call.node):
            yield Finding(
                f"`{grown}` is copied in full in every iteration just to append to it",
                call.place.location,
                help=f"append to a list in the loop, and call `{call.name}` once after it",
            )


def _grown(call: Call, loop: ast.AST) -> str:
    """`x` of `x = torch.cat([x, new])`, directly in a `for` over data."""
    if not isinstance(loop, ast.For) or not call.node.args:
        return ""
    if isinstance(loop.iter, ast.Call) and is_name(loop.iter.func, "range"):
        return ""
    first = call.node.args[0]
    parts = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
    for node in walk(loop):
        if isinstance(node, ast.Assign) and node.value is call.node and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            return name if any(is_name(part, name) for part in parts) else ""
    return ""


def _is_read_otherwise(loop: ast.AST, name: str, join: ast.Call) -> bool:
    """Whether a turn needs the joined tensor, as generating text does."""
    own = {id(node) for node in walk(join)}
    return any(id(node) not in own for node in reads_of(walk(loop), name))
