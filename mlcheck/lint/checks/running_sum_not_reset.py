"""running-sum-not-reset: every N batches a sum is divided by N, and it goes on from the batches before."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.evaluation.accumulators import never_reset
from mlcheck.lint.sites.evaluation.epoch_sums import Mean, is_set, over_epochs, zeroed
from mlcheck.lint.sites.evaluation.growing_means import growing_means
from mlcheck.lint.sites.evaluation.kept_outputs import kept_outputs
from mlcheck.lint.sites.evaluation.own_meters import counting_on
from mlcheck.lint.sites.evaluation.shared_metrics import shared_metrics

LOOKS_AT = "running sum"


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
        for growing in growing_means(file):
            facts.sites.seen[LOOKS_AT] += 1
            sum_, period = ast.unparse(growing.told.left), ast.unparse(growing.told.right)
            yield Finding(
                f"`{sum_}` is divided by the `{period}` batches since the last report, and holds the sum "
                "of all batches so far: the mean grows from report to report",
                file.place(growing.told, growing.context).location,
                help=f"set `{sum_} = 0.0` after the report",
                related=(file.place(growing.added, growing.context).location,),
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
