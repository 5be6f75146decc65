"""running-sum-not-reset: every N batches a sum is divided by N, and it goes on from the batches before."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.branches import Branch, branches_of
from mlcheck.lint.sites.evaluation.accumulators import never_reset
from mlcheck.lint.sites.evaluation.epoch_sums import Mean, is_set, is_sum, over_epochs, zeroed
from mlcheck.lint.sites.evaluation.kept_outputs import kept_outputs
from mlcheck.lint.sites.evaluation.own_meters import counting_on
from mlcheck.lint.sites.evaluation.shared_metrics import shared_metrics

LOOKS_AT = "running sum"
_UNITS = ("60", "3600", "1000", "1024", "1000000", "1000.0", "1000000.0")
_MEASURED = pattern(r"loss|acc|err|correct|hits|reward|score|metric|iou|dice|psnr|norm")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _kept_objects(facts)
    for file in facts.sites.mentioning(["+"]):
        for mean in over_epochs(file) if "torch" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            yield Finding(
                _why(mean),
                file.place(mean.node, mean.epochs.context).location,
                help=f"set `{mean.total} = 0` at the beginning of each epoch",
                related=(file.place(mean.added, mean.epochs.context).location,),
            )
    for file in facts.sites.mentioning(["%"]):
        if "torch" not in file.text or "+" not in file.text:
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


def _kept_objects(facts: Facts) -> Iterator[Finding]:
    """Metrics, meters and lists that outlive an epoch."""
    for compute, name, metric in never_reset(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{name}` is computed in every epoch but never reset: it covers the batches of all epochs so far",
            compute.place.location,
            help=f"`{name}.reset()` after `compute()`, or before the first batch",
            related=(metric.location,),
        )
    for update, meter, made in counting_on(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{meter}` is made once and never reset: what it tells covers the batches of all epochs so far",
            update.place.location,
            help="make a new one for each evaluation, or give it a method that sets its totals back to 0",
            related=(made.location,),
        )
    for read, name, filled in kept_outputs(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"Nothing empties `self.{name}`: it holds the batches of all epochs so far, and so does what is made of it",
            read.location,
            help=f"`self.{name}.clear()` at the end of the epoch",
            related=(filled.location,),
        )
    for logged, shared, fed in shared_metrics(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"Training and validation share `{shared}`: what one reports takes batches of the other, or loses its own",
            logged.place.location,
            help="make a metric of its own for each of them",
            related=(fed.location,),
        )


def _why(mean: Mean) -> str:
    if mean.kept:
        return f"`{mean.total}` becomes the mean of an epoch, and the next epoch adds its batches to that"
    if mean.both:
        return f"`{mean.text}` is taken in every epoch, and both hold the samples of all epochs so far"
    return f"`{mean.total}` is divided by the size of one epoch, and holds the sum of all epochs so far"


def _means(loop: ast.For | ast.While, facts: Facts) -> Iterator[tuple[ast.BinOp, ast.AugAssign]]:
    """`if i % n == 0: print(total / n)`, where this very loop adds to `total` and nothing in it starts it anew."""
    body = list(straight(loop.body))
    sums = {last_name(line.target): line for line in body if isinstance(line, ast.AugAssign) and is_sum(line)}
    for branch in branches_of(body) if sums else ():
        period, lines = _report(branch)
        if period is None or not lines or _is_only_report(loop, lines, period):
            continue
        for node in (node for inner in lines for node in walk(inner)):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or last_name(node.left) not in sums:
                continue
            added = sums[last_name(node.left)]
            if not isinstance(node.left, ast.Name) or ast.unparse(node.right) != period or _is_unit(period, added):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            stores = [n for n in walk(loop) if is_name(n, node.left.id) and is_set(n)]
            if len(stores) == 1:
                yield node, added


def _beside_count(loop: ast.For | ast.While) -> Iterator[tuple[ast.BinOp, ast.AugAssign]]:
    """`print(total / steps)`, `steps = 0` now and then: the count starts anew, and the sum over it does not."""
    body = list(straight(loop.body))
    added = {line.target.id: line for line in body if _is_added(line) and isinstance(line.target, ast.Name)}
    for line in body if len(added) > 1 else ():
        anew = {name for inner in line.body for name in zeroed(inner)} if isinstance(line, ast.If) else set()
        for node in walk(line) if anew else ():
            match node:
                case ast.BinOp(left=ast.Name(id=sum_), op=ast.Div(), right=ast.Name(id=count)):
                    stores = [n for n in walk(loop) if is_name(n, sum_) and is_set(n)]
                    if count in anew & set(added) and sum_ in added and len(stores) == 1:
                        yield node, added[sum_]


def _is_added(line: ast.stmt) -> TypeGuard[ast.AugAssign]:
    return isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add)


def _report(branch: Branch) -> tuple[str | None, list[ast.stmt]]:
    """The `n` of a test of `i % n`, and what runs once in so many batches."""
    return _period(branch.test), branch.other if isinstance(branch.test, ast.BinOp) else branch.held


def _is_only_report(loop: ast.For | ast.While, lines: list[ast.stmt], period: str) -> bool:
    """Whether there is no second report in this loop: it is left with the first, or is no longer than one period."""
    if isinstance(lines[-1], ast.Return | ast.Break | ast.Raise):
        return True
    return isinstance(loop, ast.For) and ast.unparse(loop.iter) == f"range({period})"


def _is_unit(period: str, added: ast.AugAssign) -> bool:
    """`seconds / 60`, `tokens / 1000`: the same thing in other units, every so often."""
    return period in _UNITS and not _MEASURED.search(ast.unparse(added).lower())


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
