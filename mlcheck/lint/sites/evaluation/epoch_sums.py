"""Sums over the batches of an epoch that begin at zero before the first epoch, and the means taken of them in each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, is_name, last_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.file import File

_SIZE = pattern(r"\blen\(|\.size\(|\.shape\b|numel\(|batch_size")
_MEASURED = pattern(r"loss|acc|err|correct|hits|reward|score|metric|iou|dice|psnr|norm")


class Mean(NamedTuple):
    """`total / size`, in every turn of the loop over epochs that never sets `total` back to zero.

    `both`: `size` holds the samples of all epochs too. `kept`: the mean is what `total` goes on from.
    """

    epochs: LoopSite
    node: ast.AST
    total: str
    text: str
    added: ast.AugAssign
    both: bool
    kept: bool


def over_epochs(file: File) -> Iterator[Mean]:
    """`total / len(loader)` in every turn of a loop over epochs, of a total that begins at zero before them all."""
    for epochs in for_loops(file):
        begun = _begun_before(epochs)
        inner = [line for line in _opened(epochs.node.body) if isinstance(line, ast.For)] if begun else []
        for batches in inner:
            sums = {
                line.target.id: line
                for line in walk(batches)
                if isinstance(line, ast.AugAssign)
                and isinstance(line.target, ast.Name)
                and line.target.id in begun
                and (is_sum(line) or _weighs(line))
            }
            told: set[str] = set()
            for node in walk(epochs.node) if sums else ():
                name, size = _divided(node)
                if size is None or name not in sums or (name in told and _is_position(size, batches)):
                    continue
                both = isinstance(size, ast.Name) and size.id in begun
                if _is_size(size, node, epochs, batches, begun):
                    stores = [n for n in walk(epochs.node) if is_name(n, name) and is_set(n)]
                    kept = _keeps(node, name, epochs.node)
                    if len(stores) == 1 + kept:
                        told.add(name)
                        yield Mean(epochs, node, name, ast.unparse(node), sums[name], both, kept)


def _divided(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The sum and what it is divided by, in `total / size` and in `total /= size`."""
    match node:
        case ast.BinOp(op=ast.Div()):
            return _name_of_sum(node.left), node.right
        case ast.AugAssign(op=ast.Div(), target=ast.Name(id=name)):
            return name, node.value
    return "", None


def _keeps(node: ast.AST, name: str, epochs: ast.For) -> bool:
    """`total /= size`, `total = total / size`: once in each epoch."""
    for line in _opened(epochs.body):
        if isinstance(line, ast.Assign) and line.value is node:
            return ast.unparse(line.targets[0]) == name
        if line is node:
            return True
    return False


def _is_size(size: ast.expr, node: ast.AST, epochs: LoopSite, batches: ast.For, begun: set[str]) -> bool:
    """Whether a sum over this epoch's batches would have to be divided by it, at this place."""
    assert isinstance(node, ast.BinOp | ast.AugAssign)
    if _is_position(size, batches):
        ends = any(isinstance(line, ast.Return | ast.Break) for line in epochs.node.body)
        return not ends and node.lineno > batches.lineno and isinstance(node, ast.BinOp)
    if node.lineno <= (batches.end_lineno or 0):
        return False
    if _is_size_of(size, _brought(epochs.node, batches)) or _counts_epoch(size, epochs, batches):
        return True
    return _counts_samples(size, begun, batches) and ".backward(" in ast.unparse(epochs.node)


def _is_position(size: ast.expr, batches: ast.For) -> bool:
    """`i + 1` of `for i, batch in enumerate(loader)`, which begins anew in each epoch."""
    match size:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=1)):
            pass
        case _:
            return False
    stores = [n for n in walk(batches) if is_name(n, name) and is_set(n)]
    if len(stores) != 1:
        return False
    counted = [call for call in walk(batches.iter) if isinstance(call, ast.Call) and len(call.args) == 1]
    match batches.target:
        case ast.Tuple(elts=[ast.Name(id=first), *_]) if first == name:
            return any(last_name(call.func) == "enumerate" and not call.keywords for call in counted)
        case ast.Name(id=first) if first == name:
            return any(last_name(call.func) == "range" for call in counted)
    return False


def _name_of_sum(node: ast.expr) -> str:
    """`total` of `total` and of `100.0 * total`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = node.left, node.right
        node = right if isinstance(left, ast.Constant) else left if isinstance(right, ast.Constant) else node
    return node.id if isinstance(node, ast.Name) else ""


def _begun_before(epochs: LoopSite) -> set[str]:
    """What is set to zero before the first epoch."""
    return {name for statement in epochs.before for name in zeroed(statement)}


def _opened(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and those that stand in a `with` of it."""
    for line in block:
        yield line
        if isinstance(line, ast.With):
            yield from _opened(line.body)


def _counts_samples(node: ast.expr, begun: set[str], batches: ast.For) -> bool:
    """`total` after `total += labels.size(0)`: the samples that went by since before the first epoch."""
    if not isinstance(node, ast.Name) or node.id not in begun:
        return False
    lines = [line for line in walk(batches) if isinstance(line, ast.AugAssign) and ast.unparse(line.target) == node.id]
    return len(lines) == 1 and _SIZE.search(ast.unparse(lines[0].value)) is not None


def _counts_epoch(node: ast.expr, epochs: LoopSite, batches: ast.For) -> bool:
    """`n` after `n = len(loader)`, or after `n = 0` at the top of each epoch and `n += 1` in each batch."""
    if not isinstance(node, ast.Name):
        return False
    bound = [each for each in walk(epochs.node) if is_name(each, node.id) and is_set(each)]
    begun = [line for line in epochs.node.body if isinstance(line, ast.Assign) and line.targets[0] in bound]
    if len(begun) != 1 or begun[0].lineno > batches.lineno:
        return False
    if len(bound) == 1:
        return _is_size_of(begun[0].value, batches.iter)
    added = [line for line in batches.body if isinstance(line, ast.AugAssign) and line.target in bound]
    ones = [isinstance(line.value, ast.Constant) and line.value.value == 1 for line in added]
    return len(bound) == 2 and node.id in zeroed(begun[0]) and ones == [True]


def zeroed(statement: ast.stmt) -> Iterator[str]:
    for target, value in assigned(statement) if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and value.value in (0, 0.0):
            yield target.id


def _brought(epochs: ast.For, batches: ast.For) -> ast.expr:
    """What the batches come from: `tqdm(loader)` of `with tqdm(loader) as bar: for batch in bar`, of `bar = ...`."""
    for line in _opened(epochs.body):
        if isinstance(line, ast.Assign) and isinstance(batches.iter, ast.Name):
            if isinstance(line.targets[0], ast.Name) and line.targets[0].id == batches.iter.id:
                return line.value
        for item in line.items if isinstance(line, ast.With) else ():
            if isinstance(item.optional_vars, ast.Name) and loads(batches.iter, item.optional_vars.id):
                return item.context_expr
    return batches.iter


def _is_size_of(node: ast.expr, over: ast.expr) -> bool:
    """`len(loader)` and `len(loader.dataset)` of the loader that the loop runs over."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "len" or len(node.args) != 1:
        return False
    counted = ast.unparse(node.args[0]).removesuffix(".dataset")
    return any(ast.unparse(part) == counted for part in walk(over) if isinstance(part, ast.Name | ast.Attribute))


def is_sum(line: ast.AugAssign) -> bool:
    """`total += loss.item()`, and not a count of turns, samples or bytes, which grows on purpose."""
    if not isinstance(line.op, ast.Add) or not isinstance(line.target, ast.Name | ast.Attribute):
        return False
    return not isinstance(line.value, ast.Constant) and not _SIZE.search(ast.unparse(line.value))


def _weighs(line: ast.AugAssign) -> bool:
    """`total += loss.item() * len(y)`."""
    text = ast.unparse(line.value).lower()
    return isinstance(line.op, ast.Add) and (".item()" in text or _MEASURED.search(text) is not None)


def is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)
