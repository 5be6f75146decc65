"""loss-term-without-gradient: a term was made a plain number, or computed from detached predictions, and then added."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward, Loss, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.training.graphless_terms import graphless_terms
from mlcheck.lint.values import Cut, Symbol, Tensor, live

LOOKS_AT = "backward pass beside a cut"
WORDS = ("detach", "item()", "float(")


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
    yield from _judged_past_cut(facts)


def _judged_past_cut(facts: Facts) -> Iterator[Finding]:
    """`judge(fake.detach())` in the loss of the generator: the judge's gradients are cleared before any step."""
    walks: dict[tuple[str, int, int], list[Forward]] = {}
    for forward in facts.forwards:
        if forward.trained and forward.learns is not None:
            walks.setdefault(forward.place.spot, []).append(forward)
    for forwards in walks.values():
        cuts = [trace for forward in forwards for trace in forward.fed if isinstance(trace, Cut)]
        first = forwards[0]
        if not cuts or any(each.learns or not each.fed or live(each.fed) for each in forwards):
            continue
        if all(_trains(facts, first, cut) for cut in cuts) and not _is_weight(facts, first.place):
            yield Finding(
                f"`{first.name}` judges what `{cuts[0].forward.name}` made past a cut: in this loss it trains neither",
                first.place.location,
                help="leave out `.detach()` here; it belongs into the loss that trains the judge",
                related=(cuts[0].place.location,),
            )


def _trains(facts: Facts, judge: Forward, cut: Cut) -> bool:
    """Whether the loss reaches, by another way, the optimizer of the module whose result was cut off."""
    reached = {key for back in facts.backwards if judge in back.forwards for key in back.reached}
    owners = [facts.training.optimizers[key].owners for key in reached if key in facts.training.optimizers]
    return any(not held.isdisjoint(cut.forward.touched) for held in owners)


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
    return not names or any(part is place.node or (isinstance(part, ast.Name) and part.id in names) for part in factors)


def _has_number(product: ast.BinOp) -> bool:
    return isinstance(product.left, ast.Constant) or isinstance(product.right, ast.Constant)


def _is_severed(loss: Loss) -> bool:
    """Whether what a model predicted was detached before the loss got it."""
    given = loss.input
    return isinstance(given, Tensor | Symbol) and bool(given.traces) and not live(given.traces)
