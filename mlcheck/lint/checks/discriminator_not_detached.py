"""discriminator-not-detached: a loss is differentiated through a network that does not step along it."""

from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Backward, Facts
from mlcheck.lint.sites.training.critics import tells_apart

LOOKS_AT = "several-optimizer loop"


def check(facts: Facts) -> Iterator[Finding]:
    steps = {(step.key, step.place.spot): [grads.place for grads in step.grads] for step in facts.steps}
    loops = [loop for loop, _ in {(loop.node, step.key) for step in facts.steps for loop, _ in step.when.loops}]
    facts.sites.seen[LOOKS_AT] = len({loop for loop in loops if loops.count(loop) > 1})
    taken = {
        key: {place for (owner, _), places in steps.items() if owner == key for place in places} for key, _ in steps
    }
    for clearing in facts.training.clearings:
        places = {grads.place for grads in clearing.grads}
        if len(places) != 1 or any(grads.kind != "fresh" for grads in clearing.grads):
            continue
        (place,) = places
        backwards = [fact for fact in facts.backwards if fact.place == place]
        others = {key for key, found in taken.items() if key != clearing.key and place in found}
        if place not in taken.get(clearing.key, ()) and any(
            _is_wasted(facts, fact, clearing.key, others & fact.reached) for fact in backwards
        ):
            made = facts.training.optimizers.get(clearing.key)
            name = made.name if made is not None and made.name else "the other optimizer"
            yield Finding(
                f"This backward goes through the network of `{name}` as well, and those gradients are thrown away",
                backwards[0].place.location,
                help="give this loss the other network's output detached: `discriminator(fake.detach())`",
                related=(clearing.place.location,),
            )


def _is_wasted(facts: Facts, backward: Backward, maker: Hashable, critics: set[Hashable]) -> bool:
    """Whether a critic's loss reached the maker of what it judged; what is real may have a backward of its own."""
    made = facts.training.optimizers.get(maker)
    others = [fact for fact in facts.backwards if maker not in fact.reached and not critics.isdisjoint(fact.reached)]
    calls = backward.forwards.union(*(fact.forwards for fact in others))
    judges = [facts.training.optimizers[key] for key in critics if key in facts.training.optimizers]
    return (
        made is not None
        and maker in backward.reached
        and any(
            made.owners.isdisjoint(judge.owners) and tells_apart(judge.owners, made.owners, calls) for judge in judges
        )
    )
