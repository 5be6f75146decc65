"""loss-keeps-graph: losses are summed up or collected with the graphs they were computed with."""

import ast
import re
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding, Location, first_of_each_line
from mlcheck.lint.facts import Backward, Facts
from mlcheck.lint.nodes import last_name, stores, walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.training.hooked_outputs import hooked_outputs
from mlcheck.lint.sites.training.kept_losses import kept_losses
from mlcheck.lint.training import Kept

LOOKS_AT = "backward pass"


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(chain(_seen(facts), _written(facts), _hooked(facts)))


def _hooked(facts: Facts) -> Iterator[Finding]:
    """Outputs that a hook keeps."""
    for hooked in hooked_outputs(facts.sites):
        yield Finding(
            f"`{hooked.kept}` keeps the output of every batch with its graph, and nothing empties it: memory grows",
            hooked.file.place(hooked.append, hooked.registered.context).location,
            help="keep `output.detach()`, or what is computed from it, and take the hook off when it is done",
            related=(hooked.registered.place.location,),
        )


def _written(facts: Facts) -> Iterator[Finding]:
    """Where nothing is known of the loss but that it is differentiated."""
    for kept in kept_losses(facts.sites):
        place = kept.file.place(kept.adding, kept.context)
        yield _keeps(kept.name, place.location, kept.file.place(kept.backward, kept.context).location)


def _keeps(name: str, added: Location, differentiated: Location) -> Finding:
    return Finding(
        f"`{name}` keeps the loss with its graph: memory grows with every batch",
        added,
        help="add `loss.item()`, or `loss.detach()` where the value is to stay on the device",
        related=(differentiated,),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    for kept in facts.training.kept:
        reached = [backward for backward in facts.backwards if not kept.calls.isdisjoint(backward.forwards)]
        if len({backward.place.spot for backward in reached}) != 1:
            continue
        whole = all(backward.forwards == kept.calls for backward in reached)
        if not (_is_itself_differentiated(kept, reached[0]) if whole else _is_term_of(kept, reached)):
            continue
        file = facts.sites.at(kept.place.path)
        if file is not None and f"{kept.what}.detach_(" in file.text:
            continue
        if file is not None and (
            _starts_anew(file, kept) or re.search(rf"\b{re.escape(kept.name)}\.pop(?:left)?\(", file.text)
        ):
            continue
        yield _keeps(kept.name, kept.place.location, reached[0].place.location)


def _starts_anew(file: File, kept: Kept) -> bool:
    """`total = 0` for each batch of a loader, before a `for _ in range(k)` that adds: a handful of losses at most."""
    loops = [node for node in walk(file.module.source.tree) if isinstance(node, ast.For)]
    around = [loop for loop in loops if any(node is kept.place.node for node in walk(loop))]
    if len(around) < 2:
        return False
    inner, *outer = sorted(around, key=lambda loop: -loop.lineno)
    if not _counts(inner):
        return False
    return any(
        stores(line, kept.name) for loop in outer[:1] if not _counts(loop) for line in loop.body if line is not inner
    )


def _counts(loop: ast.For) -> bool:
    """`for _ in range(k)`."""
    return isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range"


def _is_term_of(kept: Kept, reached: list[Backward]) -> bool:
    """Whether it is one of the terms of a loss that was differentiated before: `error` of `error + penalty`."""
    return kept.trained and all(kept.calls < backward.forwards for backward in reached)


def _is_itself_differentiated(kept: Kept, backward: Backward) -> bool:
    """Whether the backward ran before, or runs on the very loss: else the sum may be what is differentiated."""
    return kept.trained or ast.unparse(backward.place.node).startswith(f"{kept.what}.backward(")
