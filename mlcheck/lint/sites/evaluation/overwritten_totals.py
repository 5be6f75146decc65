"""Totals over the batches of a loop: what is divided behind it, and the line that overwrites it in each turn."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import assigned, is_name, last_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, straight
from mlcheck.lint.sites.iteration import counter_of, iteration_of

_ZEROS = ("torch.zeros", "torch.tensor", "numpy.zeros")
_FEW = 3
_SIZES = ("size", "numel", "len")


def means(loop: LoopSite) -> Iterator[tuple[ast.BinOp, str, str | ast.expr]]:
    """`total / count` behind the loop: the division, the total, and the count by its name or as `len(...)`."""
    for statement in loop.after:
        for node in walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                total, count = _root(node.left), node.right
                if total:
                    yield node, total, _root(count) or count
        if isinstance(statement, ast.For | ast.While):
            return


def _root(node: ast.expr) -> str:
    """`total` of `100.0 * total.item()` and of `float(total)`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=ast.Name(), slice=ast.Constant()) | ast.Attribute(value=ast.Name()):
            return ast.unparse(node)
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(), right=inner):
            return _root(inner)
        case ast.BinOp(op=ast.Mult(), left=inner, right=ast.Constant()):
            return _root(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "float" | "double"), args=[]):
            return _root(inner)
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _root(inner)
    return ""


def added_in(loop: ast.For) -> set[str]:
    """The variables that the loop adds to."""
    added = (node for node in walk(loop) if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add))
    return {total for node in added if (total := _root(node.target))}


def is_of_all(count: ast.expr, loop: LoopSite) -> bool:
    """`len(loader)` or `len(loader.dataset)` behind `for batch in loader`; `i + 1` behind `enumerate(loader)`."""
    match count, loop.node:
        case (
            ast.BinOp(left=ast.Name(id=turn), op=ast.Add(), right=ast.Constant(value=1)),
            ast.For(target=ast.Tuple(elts=[first, _]), iter=ast.Call(func=ast.Name(id="enumerate"), args=[_])),
        ):
            return is_name(first, turn)
    if not isinstance(count, ast.Call) or last_name(count.func) != "len" or len(count.args) != 1:
        return False
    counted = count.args[0]
    if isinstance(counted, ast.Attribute) and counted.attr == "dataset":
        counted = counted.value
    text = ast.unparse(counted)
    return any(
        text in _carried(loop, node) for node in walk(loop.node.iter) if isinstance(node, ast.Name | ast.Attribute)
    )


def _carried(loop: LoopSite, node: ast.expr) -> tuple[str, ...]:
    """What a loop goes through by its name, and the data that it carries where it is a loader made here."""
    made, context = loop.file.value(node, loop.context)
    if isinstance(made, ast.Call) and made.args and loop.file.called(made, context) == "torch.utils.data.DataLoader":
        return ast.unparse(node), ast.unparse(made.args[0])
    return (ast.unparse(node),)


def overwritten(loop: LoopSite, name: str, begun: bool = True) -> ast.Assign | None:
    """The assignment in the loop that throws away what the turns before it left in a variable that began at zero.

    If it need not have `begun` before the loop, nothing but the loop may set it.
    """
    alone = not begun and name.isidentifier() and len(loop.file.bindings(name, loop.context)) == 1
    if not alone and not any(_begins_at_zero(loop, statement, name) for statement in loop.before):
        return None
    held, _, key = name.partition("[")
    kind = ast.Subscript if key else ast.Attribute if "." in name else ast.Name
    named = [node for node in walk(loop.node) if isinstance(node, kind)]
    uses = [node for node in named if _root(node) == name]
    if any(isinstance(node.ctx, ast.Load) for node in uses) or (key and _is_handed_on(loop.node, held)):
        return None
    stores: list[ast.expr] = [node for node in uses if not isinstance(node.ctx, ast.Load)]
    lines = [node for node in straight(loop.node.body) if isinstance(node, ast.Assign) and node.targets[0] in stores]
    if len(stores) != 1 or len(lines) != 1 or len(lines[0].targets) != 1:
        return None
    value, own = _told(loop.node, lines[0].value), _of_turn(loop.node)
    if alone and (counter := counter_of(loop.node)) is not None and loads(lines[0].value, counter[0]):
        return None  # as much as all turns so far
    return lines[0] if _is_of_batch(lines[0].value, own) and _is_of_batch(value, own) else None


def _entries(node: ast.expr) -> dict[str, ast.expr]:
    """The entries of `{"hits": 0}` and of `dict(hits=0)`, by how their keys are written."""
    match node:
        case ast.Dict(keys=keys, values=values):
            return {ast.unparse(key): value for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=words):
            return {repr(word.arg): word.value for word in words if word.arg is not None}
    return {}


def _is_handed_on(loop: ast.For, name: str) -> bool:
    """Whether a dictionary is used otherwise than by its keys: somebody else may add to it."""
    by_key = {id(node.value) for node in walk(loop) if isinstance(node, ast.Subscript)}
    return any(is_name(node, name) and id(node) not in by_key for node in walk(loop))


def _told(loop: ast.For, value: ast.expr) -> ast.expr:
    """`meter.update(x)` of `made`, where the loop makes it so, in a line or two: a name is what it was assigned."""
    for _ in range(_FEW):
        bare = value.args[0] if isinstance(value, ast.Call) and is_name(value.func, "float") and value.args else value
        name = bare.id if isinstance(bare, ast.Name) else ""
        lines = [node for node in walk(loop) if isinstance(node, ast.Assign) and node.lineno < value.lineno]
        made = [given for line in lines for target, given in assigned(line) if is_name(target, name)]
        if not made:
            break
        value = made[-1]
    return value


def _of_turn(loop: ast.For) -> set[str]:
    """The names of what the turn brought and of what is computed from it; its number counts all turns before."""
    turn = iteration_of(loop)
    counts = isinstance(turn.over, ast.Call) and last_name(turn.over.func) in ("enumerate", "trange", "range")
    brought = ast.Tuple([]) if counts else turn.brought
    names = {node.id for node in walk(brought) if isinstance(node, ast.Name)}
    lines = [node for node in walk(loop) if isinstance(node, ast.Assign)]
    for line in sorted(lines, key=lambda line: line.lineno):
        if any(loads(line.value, name) for name in names):
            names |= {n.id for target in line.targets for n in walk(target) if isinstance(n, ast.Name)}
    return names - added_in(loop)


def _begins_at_zero(loop: LoopSite, statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    held, _, key = name.partition("[")
    for target, value in assigned(statement):
        if key and is_name(target, held):
            value = _entries(value).get(key.removesuffix("]"), value)
        elif _root(target) != name:
            continue
        if _root(target) in (held, name):
            if isinstance(value, ast.Constant):
                return type(value.value) in (int, float) and value.value == 0
            return loop.file.called(value, loop.context) in _ZEROS
    return False


def _is_of_batch(value: ast.expr, own: set[str]) -> bool:
    """Whether the value is computed from what this turn brought, and is not asked of something that may keep count."""
    node = value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    if isinstance(node, ast.BinOp):
        return _is_of_batch(node.left, own) or _is_of_batch(node.right, own)
    if isinstance(node, ast.Call):
        kept = isinstance(node.func, ast.Attribute) and last_name(node.func.value) not in ("torch", "F", *own)
        if kept and not any(word in last_name(node.func) for word in ("loss", "criterion")):
            return False
        if isinstance(node.func, ast.Name) and not any(word in node.func.id for word in ("loss", "criterion", "len")):
            return False
    return any(isinstance(inner, ast.Name) and inner.id in own for inner in walk(node))


def is_size(value: ast.expr) -> bool:
    """`labels.size(0)`, `len(labels)`, `labels.shape[0]`, `labels.numel()`."""
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute):
        return value.value.attr == "shape"
    return isinstance(value, ast.Call) and last_name(value.func) in _SIZES
