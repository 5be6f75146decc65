"""split-unseeded: each run draws another split, so a resumed run trains on what it validated on."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Sites
from mlcheck.lint.sites.data.drawn_splits import (
    ORDERS,
    PARTS,
    RANDOM_SPLIT,
    SKLEARN,
    drawn_by_each_rank,
    orders_cut_in_two,
)
from mlcheck.lint.sites.data.seeds import HELPERS, NUMPY, TORCH, seeds
from mlcheck.lint.sites.origins import callers

LOOKS_AT = "random split"
WORDS = ("random_split", "train_test_split", "permutation", "shuffle(")


def check(facts: Facts) -> Iterator[Finding]:
    splits = list(facts.sites.calls(RANDOM_SPLIT, SKLEARN))
    facts.sites.seen[LOOKS_AT] = len(splits)
    by_rank = {id(call.node) for call in drawn_by_each_rank(facts.sites)}
    for call in splits:
        if id(call.node) in by_rank:
            continue  # that is worse, and has a rule of its own
        name, position = ("random_state", None) if call.name == SKLEARN else ("generator", 2)
        if call.constant("shuffle", None, True) is False or call.constant(name, position) is not None:
            continue
        late = _drawn_before_the_seed(facts.sites, call) if call.name == RANDOM_SPLIT else None
        if late is not None:
            yield Finding(
                "The split is drawn before the seed is set: each run draws a different one",
                late.place.location,
                help="seed first, or pass `generator=torch.Generator().manual_seed(seed)`",
                related=(call.place.location,),
            )
        elif not seeds(facts.sites, TORCH if call.name == RANDOM_SPLIT else NUMPY):
            yield Finding(
                "Each run draws a different split: a run that is resumed has seen these held-out samples",
                call.place.location,
                help="pass `generator=torch.Generator().manual_seed(seed)`"
                if position is not None
                else "pass `random_state=seed`",
            )
    yield from _of_other_generators(facts.sites)


def _drawn_before_the_seed(sites: Sites, split: Call) -> Call | None:
    """The split, or the one call of the function around it, above the only seed of the program in the same block."""
    seeds = list(sites.calls("torch.manual_seed", "torch.random.manual_seed"))
    if len(seeds) != 1 or any(HELPERS.search(file.text) or "Generator(" in file.text for file in sites.files.values()):
        return None
    seed, asked = seeds[0], split
    if split.function is not None and split.function is not seed.function:
        above = list(callers(sites, split.function))
        if len(above) != 1:
            return None
        asked = above[0]
    together = asked.file is seed.file and asked.context.node is seed.context.node
    return asked if together and asked.node.lineno < seed.node.lineno else None


def _of_other_generators(sites: Sites) -> Iterator[Finding]:
    """`np.random.permutation(n)`, cut into parts of a data set by a program that seeds torch and not numpy."""
    if not any(True for _ in sites.mentioning(PARTS)) or not seeds(sites, TORCH, helpers=False):
        return
    by_rank = {id(call.node) for call in drawn_by_each_rank(sites)}
    for call in orders_cut_in_two(sites):
        if id(call.node) not in by_rank and not seeds(sites, ORDERS[call.name]):
            sites.seen[LOOKS_AT] += 1
            library = call.name.rpartition(".")[0]
            yield Finding(
                f"Each run draws a different split: torch is seeded, and `{library}`, which draws this, is not",
                call.place.location,
                help=f"`{library}.seed(seed)` as well",
            )
