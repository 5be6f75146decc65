"""frozen-fresh-weights: layers that are new are frozen with all the others, and keep what they were drawn as."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.frozen_fresh import frozen_fresh
from mlcheck.lint.sites.training.frozen_tables import random_tables

LOOKS_AT = "module that is frozen"
WORDS = ("requires_grad", "from_pretrained(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.mentioning(WORDS))
    for fresh in frozen_fresh(facts.sites):
        what, they = ("What is put in here is new", "that") if fresh.layer == "*" else (f"`{fresh.layer}` is new", "it")
        yield Finding(
            f"{what}, and frozen below with everything else: another part is set free after that, and {they} keeps its "
            "random weights",
            fresh.function.place(fresh.made).location,
            help="freeze first, and put in what is new afterwards",
            related=(fresh.function.place(fresh.frozen).location,),
        )
    for table in random_tables(facts.sites):
        yield Finding(
            "`from_pretrained` freezes the table, and this one is random: the model works with random features forever",
            table.made.place.location,
            help="pass `freeze=False`, or make an ordinary `nn.Embedding`",
            related=(table.drawn.file.place(table.drawn.node, table.drawn.context).location,),
        )
