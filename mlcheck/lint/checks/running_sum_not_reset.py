"""running-sum-not-reset: every N batches a sum is divided by N, and it goes on from the batches before."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import assigned, last_name, loads, walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.evaluation.accumulators import never_reset

LOOKS_AT = "running sum"
_SIZE = pattern(r"\blen\(|\.size\(|\.shape\b|numel\(|batch_size")
_UNITS = ("60", "3600", "1000", "1024", "1000000", "1000.0", "1000000.0")
_MEASURED = pattern(r"loss|acc|err|correct|hits|reward|score|metric|iou|dice|psnr|norm")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for compute, name, metric in never_reset(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{name}` is asked in every epoch, and nothing resets it: it holds the batches of all epochs so far",
            compute.place.location,
            help=f"`{name}.reset()` after `compute()`, or before the first batch",
            related=(metric.place.location,),
        )
    for file in facts.sites.mentioning(["+="]):
        for epochs, mean, added in _over_epochs(file) if "torch" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            sum_ = _name_of_sum(mean.left)
            yield Finding(
                f"`{sum_}` is divided by the size of one epoch, and holds the sum of all epochs so far"
                if ast.unparse(mean.right) not in _begun(epochs)
                else f"`{ast.unparse(mean)}` is taken in every epoch, and both hold the samples of all epochs so far",
                file.place(mean, epochs.context).location,
                help=f"set `{sum_} = 0` at the beginning of each epoch",
                related=(file.place(added, epochs.context).location,),
            )
    for file in facts.sites.mentioning(["%"]):
        if "torch" not in file.text or "+=" not in file.text:
            continue
        for loop, context in file.walk.loops:
            for told, added in _beside_count(loop):
                sum_, count = ast.unparse(told.left), ast.unparse(told.right)
                yield Finding(
                    f"`{count}` starts anew after each report, and `{sum_}`, which it divides, goes on",
                    file.place(told, context).location,
                    help=f"set `{sum_} = 0.0` too",
                    related=(file.place(added, context).location,),
                )
            for told, added in _means(loop, facts):
                sum_, period = ast.unparse(told.left), ast.unparse(told.right)
                yield Finding(
                    f"`{sum_}` is divided by the `{period}` batches since the last report, and holds the sum "
                    "of all batches so far: the mean grows from report to report",
                    file.place(told, context).location,
                    help=f"set `{sum_} = 0.0` after the report",
                    related=(file.place(added, context).location,),
                )


def _over_epochs(file: File) -> Iterator[tuple[LoopSite, ast.BinOp, ast.AugAssign]]:
    """`total / len(loader)` in every turn of a loop over epochs, of a total that begins at zero before them all."""
    for epochs in for_loops(file):
        begun = _begun(epochs)
        inner = [line for line in _opened(epochs.node.body) if isinstance(line, ast.For)] if begun else []
        for batches in inner:
            sums = {
                line.target.id: line
                for line in walk(batches)
                if isinstance(line, ast.AugAssign)
                and isinstance(line.target, ast.Name)
                and (_is_sum(line) or _weighs(line))
            }
            for node in walk(epochs.node):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (name := _name_of_sum(node.left)):
                    behind = node.lineno > (batches.end_lineno or 0)
                    counted = _counts_samples(node.right, begun, batches) and ".backward(" in ast.unparse(epochs.node)
                    if not behind or name not in begun or name not in sums:
                        continue
                    sized = _is_size_of(node.right, _brought(epochs.node, batches))
                    if counted or sized or _counts_epoch(node.right, epochs, batches):
                        stores = [n for n in walk(epochs.node) if isinstance(n, ast.Name) and n.id == name]
                        if len([n for n in stores if _is_set(n)]) == 1:
                            yield epochs, node, sums[name]


def _name_of_sum(node: ast.expr) -> str:
    """`total` of `total` and of `100.0 * total`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = node.left, node.right
        node = right if isinstance(left, ast.Constant) else left if isinstance(right, ast.Constant) else node
    return node.id if isinstance(node, ast.Name) else ""


def _begun(epochs: LoopSite) -> set[str]:
    """What is set to zero before the first epoch."""
    return {name for statement in epochs.before for name in _zeroed(statement)}


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
    bound = [each for each in walk(epochs.node) if isinstance(each, ast.Name) and each.id == node.id and _is_set(each)]
    begun = [line for line in epochs.node.body if isinstance(line, ast.Assign) and line.targets[0] in bound]
    if len(begun) != 1 or begun[0].lineno > batches.lineno:
        return False
    if len(bound) == 1:
        return _is_size_of(begun[0].value, batches.iter)
    added = [line for line in batches.body if isinstance(line, ast.AugAssign) and line.target in bound]
    ones = [isinstance(line.value, ast.Constant) and line.value.value == 1 for line in added]
    return len(bound) == 2 and node.id in _zeroed(begun[0]) and ones == [True]


def _zeroed(statement: ast.stmt) -> Iterator[str]:
    for target, value in assigned(statement) if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and value.value in (0, 0.0):
            yield target.id


def _brought(epochs: ast.For, batches: ast.For) -> ast.expr:
    """What the batches come from: `tqdm(loader)` of `with tqdm(loader) as bar: for batch in bar`."""
    for line in _opened(epochs.body):
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


def _means(loop: ast.For | ast.While, facts: Facts) -> Iterator[tuple[ast.BinOp, ast.AugAssign]]:
    """`if i % n == 0: print(total / n)`, where this very loop adds to `total` and nothing in it starts it anew."""
    sums = {last_name(line.target): line for line in loop.body if isinstance(line, ast.AugAssign) and _is_sum(line)}
    for line in loop.body if sums else ():
        period = _period(line.test) if isinstance(line, ast.If) else None
        if period is None or not isinstance(line, ast.If) or _is_only_report(loop, line, period):
            continue
        for node in (node for inner in line.body for node in walk(inner)):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or last_name(node.left) not in sums:
                continue
            added = sums[last_name(node.left)]
            if not isinstance(node.left, ast.Name) or ast.unparse(node.right) != period or _is_unit(period, added):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            stores = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == node.left.id and _is_set(n)]
            if len(stores) == 1:
                yield node, added


def _beside_count(loop: ast.For | ast.While) -> Iterator[tuple[ast.BinOp, ast.AugAssign]]:
    """`print(total / steps)`, `steps = 0` now and then: the count starts anew, and the sum over it does not."""
    added = {line.target.id: line for line in loop.body if _is_added(line) and isinstance(line.target, ast.Name)}
    for line in loop.body if len(added) > 1 else ():
        anew = {name for inner in line.body for name in _zeroed(inner)} if isinstance(line, ast.If) else set()
        for node in walk(line) if anew else ():
            match node:
                case ast.BinOp(left=ast.Name(id=sum_), op=ast.Div(), right=ast.Name(id=count)):
                    stores = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == sum_ and _is_set(n)]
                    if count in anew & set(added) and sum_ in added and len(stores) == 1:
                        yield node, added[sum_]


def _is_added(line: ast.stmt) -> TypeGuard[ast.AugAssign]:
    return isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add)


def _is_sum(line: ast.AugAssign) -> bool:
    """`total += loss.item()`, and not a count of turns, samples or bytes, which grows on purpose."""
    if not isinstance(line.op, ast.Add) or not isinstance(line.target, ast.Name):
        return False
    return not isinstance(line.value, ast.Constant) and not _SIZE.search(ast.unparse(line.value))


def _weighs(line: ast.AugAssign) -> bool:
    """`total += loss.item() * len(y)`."""
    text = ast.unparse(line.value).lower()
    return isinstance(line.op, ast.Add) and (".item()" in text or _MEASURED.search(text) is not None)


def _is_only_report(loop: ast.For | ast.While, line: ast.If, period: str) -> bool:
    """Whether there is no second report in this loop: it is left with the first, or is no longer than one period."""
    if isinstance(line.body[-1], ast.Return | ast.Break | ast.Raise):
        return True
    return isinstance(loop, ast.For) and ast.unparse(loop.iter) == f"range({period})"


def _is_unit(period: str, added: ast.AugAssign) -> bool:
    """`seconds / 60`, `tokens / 1000`: the same thing in other units, every so often."""
    return period in _UNITS and not _MEASURED.search(ast.unparse(added).lower())


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _period(test: ast.expr) -> str | None:
    """`n` of `i % n == k`, `(i + 1) % n == 0`, `not i % n` and `i and i % n == 0`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        found = [period for value in test.values if (period := _period(value)) is not None]
        return found[0] if len(found) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        test = test.left
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) and ast.unparse(test.right) != "1":
        return ast.unparse(test.right)
    return None
