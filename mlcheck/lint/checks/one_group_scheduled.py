"""one-group-scheduled: the learning rate of the first parameter group is set by hand, and that of the others stays."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.lone_group import lone_groups

LOOKS_AT = "learning rate of one group"
WORDS = ("param_groups[0]",)


def check(facts: Facts) -> Iterator[Finding]:
    found = list(lone_groups(facts.sites))
    facts.sites.seen[LOOKS_AT] = len(found)
    for lone in found:
        others = "the other keeps its" if lone.groups == 2 else f"the {lone.groups - 1} others keep their"
        yield Finding(
            f"This sets the learning rate of the first group alone: {others} own for the whole run",
            lone.file.place(lone.target, lone.context).location,
            help='`for group in optimizer.param_groups: group["lr"] = ...`; a factor for each keeps their proportion',
            related=(lone.made.file.place(lone.made.node, lone.made.context).location,),
        )
