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
                help=f"append to a list in the loop, and call `{_joining(call)}` once after it",
            )


def _joining(call: Call) -> str:
    """What joins a whole list: `append` takes two."""
    return "numpy.concatenate" if call.name == "numpy.append" else call.name


def _grown(call: Call, loop: ast.AST) -> str:
    """`x` of `x = torch.cat([x, new])`, directly in a `for` over data; `self.x`, and `bank["x"]`, as well."""
    if not isinstance(loop, ast.For) or not call.node.args:
        return ""
    if isinstance(loop.iter, ast.Call) and is_name(loop.iter.func, "range"):
        return ""
    first = call.node.args[0]
    parts = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
    for node in walk(loop):
        if isinstance(node, ast.Assign) and node.value is call.node:
            name = ast.unparse(node.targets[0])
            kept = isinstance(node.targets[0], ast.Name) or _is_kept(node.targets[0])
            return name if kept and any(ast.unparse(part) == name for part in parts) else ""
    return ""


def _is_kept(target: ast.expr) -> bool:
    """`self.bank`, `bank["features"]`: one place, whichever turn it is."""
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and isinstance(target.value, ast.Name | ast.Attribute)
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)


def _is_read_otherwise(loop: ast.AST, name: str, join: ast.Call) -> bool:
    """Whether a turn needs the joined tensor, as generating text does."""
    own = {id(node) for node in walk(join)}
    if name.isidentifier():
        return any(id(node) not in own for node in reads_of(walk(loop), name))
    reads = (n for n in walk(loop) if isinstance(n, ast.Attribute | ast.Subscript) and isinstance(n.ctx, ast.Load))
    return any(id(node) not in own and ast.unparse(node) == name for node in reads)
