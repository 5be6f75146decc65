"""eval-without-no-grad: an evaluation builds a graph for every batch, and nobody asks for gradients."""

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.judging import evaluates

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    for idle in facts.idle:
        name = idle.name
        yield Finding(
            f"`{name}()` is called and not entered: it changes nothing",
            idle.place.location,
            help=f"use it as `with {name}():` around the evaluation",
        )
    for first, *others in _evaluations(facts):
        yield Finding(
            f"`{first.name}` is evaluated with gradients recorded: every batch builds a graph for nothing",
            first.place.location,
            help="run the evaluation under `torch.no_grad()` or `torch.inference_mode()`",
            related=(
                *(mode.place.location for mode in first.modes if mode.place),
                *(other.place.location for other in others),
            ),
        )


def _evaluations(facts: Facts) -> Iterator[list[Forward]]:
    """The model calls that record gradients for nothing; those of one evaluation belong together."""
    spoken = {idle.place[0::2] for idle in facts.idle}
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    found: dict[Hashable, dict[Hashable, Forward]] = {}
    for forward in facts.forwards:
        if forward.place.spot in trained or forward.place[0::2] in spoken or forward.frozen:
            continue
        if forward.unread and forward.loop is None:  # a warm-up, once: what it recorded is gone at once
            continue
        if forward.grad.kind == "on" and {mode.kind for mode in forward.modes} == {"eval"} and evaluates(forward):
            found.setdefault(_whole(forward), {})[forward.place.spot] = forward
    for together in found.values():
        yield list(together.values())


def _whole(forward: Forward) -> Hashable:
    """What one `with` mends: the calls of one loop; the parts that a model's own method calls after one `eval()`."""
    node = forward.place.node
    func = node.func if isinstance(node, ast.Call) else None
    while isinstance(func, ast.Attribute):
        func = func.value
    if isinstance(func, ast.Name) and func.id == "self":
        return frozenset(mode.place.spot for mode in forward.modes if mode.place)
    return forward.place.path, forward.place.symbol, forward.loop and forward.loop.place.spot
