"""loss-term-without-gradient: a term was made a plain number, or computed from detached predictions, and then added."""

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward, Loss, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.training.graphless_terms import graphless_terms
from mlcheck.lint.sites.training.hard_terms import hard_terms
from mlcheck.lint.sites.training.torn_fakes import torn_fakes
from mlcheck.lint.values import Cut, Symbol, Tensor, live

LOOKS_AT = "backward pass beside a cut"
WORDS = ("detach", ".data", "item()", "float(", "> ", ">= ", "round(", "max(", "indices", "no_grad", "inference_mode")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(len(file.calls("backward")) for file in facts.sites.mentioning(WORDS))
    judged: dict[tuple[str, int, int], list[bool]] = {}
    for loss in facts.losses:
        judged.setdefault(loss.place.spot, []).append(_is_severed(loss))
    severed = {spot for spot, all_of in judged.items() if all(all_of)}
    told = set()
    for term in graphless_terms(facts.sites, severed):
        if term.cut.spot not in told:
            told.add(term.cut.spot)
            yield Finding(
                f"`{term.name}` has no graph from here on: in the loss that it is added to it trains nothing",
                term.cut.location,
                help=f"keep the graph of `{term.name}`; take `.item()` or `.detach()` only for what is logged",
                related=(term.sum.location,),
            )
    for hard in hard_terms(facts.sites):
        yield Finding(
            f"A decision has no gradient, and `{hard.term}` is computed of it: this term of the loss trains nothing",
            hard.decision.location,
            help="compute the term of the probabilities; decide only for what is reported",
            related=(hard.sum.location,),
        )
    for torn in torn_fakes(facts.sites):
        yield Finding(
            f"`{torn.fake}` is detached here, and this loss wants it to pass for real: whoever made it learns nothing",
            torn.judged.location,
            help=f"leave `{torn.fake}` attached here; detach it where the judge is to find it false",
            related=(torn.wanted.location, torn.other.location),
        )
    yield from _fed_by_cut(facts)


def _fed_by_cut(facts: Facts) -> Iterator[Finding]:
    """`adversarial = critic(fake.detach())` in the loss by which the maker of `fake` steps, and the critic does not."""
    told, stepped = set(), {step.key for step in facts.steps}
    for backward in facts.backwards:
        keys = {step.key for step in facts.steps if any(grads.place == backward.place for grads in step.grads)}
        moved, kept = _owners(facts, keys), _owners(facts, stepped - keys)
        for judge in backward.forwards if moved and keys <= backward.reached else ():
            idle = judge.touched & kept and judge.touched.isdisjoint(moved)
            if (
                idle
                and judge.place.spot not in told
                and _is_given_cut(judge, moved)
                and not _is_weight(facts, judge.place)
            ):
                told.add(judge.place.spot)
                yield Finding(
                    f"`{judge.name}` gets what was detached, and is not stepped: its term of this loss trains nothing",
                    judge.place.location,
                    help="give it the output with its graph",
                    related=(backward.place.location,),
                )


def _is_given_cut(judge: Forward, moved: set[Hashable]) -> bool:
    """Whether all that the call gets was made by modules that are stepped, and cut off from them."""
    makers = [trace.forward for trace in judge.fed if isinstance(trace, Cut)]
    return bool(makers) and not live(judge.fed) and all(maker.touched & moved for maker in makers)


def _is_weight(facts: Facts, place: Place) -> bool:
    """Whether what the call gives multiplies anything but a number: `log_prob * judge(state, action.detach())`."""
    file = facts.sites.at(place.path)
    if file is None:
        return True
    nodes = walk(file.module.source.tree)
    lines = [node for node in nodes if isinstance(node, ast.Assign) and node.value is place.node]
    names = {
        part.id for line in lines for target in line.targets for part in walk(target) if isinstance(part, ast.Name)
    }
    products = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)]
    factors = {part for node in products if not _has_number(node) for part in walk(node)}
    return any(part is place.node or (isinstance(part, ast.Name) and part.id in names) for part in factors)


def _has_number(product: ast.BinOp) -> bool:
    return isinstance(product.left, ast.Constant) or isinstance(product.right, ast.Constant)


def _owners(facts: Facts, keys: set[Hashable]) -> set[Hashable]:
    made = (facts.training.optimizers.get(key) for key in keys)
    return {owner for each in made if each is not None and not each.handed_on for owner in each.owners}


def _is_severed(loss: Loss) -> bool:
    """Whether what a model predicted was detached before the loss got it."""
    given = loss.input
    return isinstance(given, Tensor | Symbol) and bool(given.traces) and not live(given.traces)
