"""total-overwritten: a total that is divided by what a loop ran over holds its last batch alone."""

import ast
from collections.abc import Iterator
from functools import partial

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.evaluation.begun_anew import begun_anew
from mlcheck.lint.sites.evaluation.doubled import doubled
from mlcheck.lint.sites.evaluation.dropped_sums import dropped_sums, unread_sums
from mlcheck.lint.sites.evaluation.last_batch_metrics import last_alone, metrics_of_last_batch
from mlcheck.lint.sites.evaluation.never_added import never_added
from mlcheck.lint.sites.evaluation.overwritten_results import overwritten_results
from mlcheck.lint.sites.evaluation.overwritten_totals import added_in, is_of_all, is_size, means, overwritten

LOOKS_AT = "loop with a mean behind it"


def check(facts: Facts) -> Iterator[Finding]:
    seen, alone_in = 0, set[ast.For]()
    for file in facts.sites.mentioning([".eval()", "no_grad", "inference_mode"]):
        for loop in for_loops(file):
            seen += 1
            if (told := last_alone(loop)) is not None:
                alone_in.add(loop.node)
                yield Finding(
                    f"`{ast.unparse(told)}` is of the last batch alone: every batch before it overwrote the name",
                    file.place(told, loop.context).location,
                    help="add up over the batches, and divide by their number behind the loop",
                    related=(file.place(loop.node, loop.context).location,),
                )
    for alone in metrics_of_last_batch(facts.sites):
        file, context = alone.loop.file, alone.loop.context
        yield Finding(
            f"`{alone.names[0]}` and `{alone.names[1]}` are of the last batch alone: every batch before it "
            "overwrote them",
            file.place(alone.metric, context).location,
            help="gather them in lists, and compute the metric of all that was gathered",
            related=(file.place(alone.line, context).location,),
        )
    yield from _lost_results(facts)
    for loop, sum_, thrown in dropped_sums(facts.sites):
        yield Finding(
            f"What the loop adds up in `{ast.unparse(sum_.target)}` is thrown away here for its last batch",
            loop.file.place(thrown, loop.context).location,
            help=f"divide the sum: `{ast.unparse(sum_.target)} /= ...`",
            related=(loop.file.place(sum_, loop.context).location,),
        )
    yield from _never_told(facts)
    for file in facts.sites.mentioning(["+", ".append("]):
        for loop in for_loops(file) if "torch" in file.text else ():
            yield from _begun_anew(loop)
    for place, name in doubled(facts.sites):
        yield Finding(
            f"`{name}` is added to itself: what the loop was to add up is overwritten in each turn",
            place.location,
            help="give what one item adds a name of its own",
        )
    for file in facts.sites.mentioning([" / "]):
        for loop in for_loops(file):
            if loop.node in alone_in:
                continue
            added = added_in(loop.node)
            for mean, total, count in means(loop):
                seen += 1
                whole = count in added if isinstance(count, str) else is_of_all(count, loop)
                if whole and (line := overwritten(loop, total, begun=False)) is not None:
                    yield _finding(loop, line, mean, total)
                elif total in added and isinstance(count, str) and (line := overwritten(loop, count)) is not None:
                    if is_size(line.value):
                        yield _finding(loop, line, mean, count)
    facts.sites.seen[LOOKS_AT] = seen


def _never_told(facts: Facts) -> Iterator[Finding]:
    """Totals that nothing is added to, and totals that nothing reads."""
    for lost in never_added(facts.sites):
        said, needed = f"`{lost.name}` is always 0 here: nothing is ever added to it", f"`{lost.name} += ...`"
        yield Finding(said, lost.mean.location, help=needed, related=(lost.begun.location,))
    for loop, gathered, told, kept in unread_sums(facts.sites):
        yield Finding(
            f"`{ast.unparse(told.left)}` is of the last batch alone, and nothing reads the sum of all, `{kept}`",
            loop.file.place(told, loop.context).location,
            help=f"divide the sum: `{kept}`",
            related=(loop.file.place(gathered, loop.context).location,),
        )


def _lost_results(facts: Facts) -> Iterator[Finding]:
    """What each turn overwrites that was to gather all, and what each turn divides."""
    for lost in overwritten_results(facts.sites):
        what = (
            f"`{lost.name}` is divided in every turn, and what follows is added to that: it is the mean of nothing"
            if lost.divided
            else f"Every turn overwrites `{lost.name}`: what is returned is of the last turn alone"
        )
        yield Finding(
            what,
            lost.loop.file.place(lost.line, lost.loop.context).location,
            help="divide once, behind the loop" if lost.divided else f"gather: `{lost.name}.update(...)`",
            related=(lost.loop.file.place(lost.loop.node, lost.loop.context).location,),
        )


def _begun_anew(loop: LoopSite) -> Iterator[Finding]:
    """`correct = 0` inside of the loop over the batches that counts in it."""
    for found in begun_anew(loop, partial(_means_of_all, loop)):
        yield Finding(
            f"`{found.name}` is reset in every iteration of the loop: where it is read, it covers the last one alone",
            loop.file.place(found.begun, loop.context).location,
            help=f"move `{ast.unparse(found.begun)}` before the loop",
            related=(loop.file.place(found.read, loop.context).location,),
        )


def _means_of_all(loop: LoopSite) -> dict[str, ast.BinOp]:
    """The divisions behind the loop by what all its turns counted, by the names of their totals."""
    added = added_in(loop.node)
    return {
        total: mean
        for mean, total, count in means(loop)
        if (count in added - {total} if isinstance(count, str) else is_of_all(count, loop))
    }


def _finding(loop: LoopSite, line: ast.Assign, mean: ast.AST, name: str) -> Finding:
    return Finding(
        f"Every batch overwrites `{name}`: the mean behind the loop is of the last batch alone",
        loop.file.place(line, loop.context).location,
        help=f"add up: `{name} += ...`",
        related=(loop.file.place(mean, loop.context).location,),
    )
