"""train-not-restored: an evaluation leaves the model in eval mode, and training goes on."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import belongs_to_attack

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    spared = _spared(facts)
    for forward in facts.forwards:
        if not forward.trained or forward.moded == "no" or forward.grad.kind == "off":
            continue
        if forward.place.spot in spared or belongs_to_attack(forward):
            continue
        for mode in forward.modes:
            if mode.kind != "eval" or mode.place is None or mode.when is None:
                continue
            if forward.when.later_turn(mode.when) is not None:
                yield Finding(
                    f"`{forward.name}` is put into eval mode here, and the next iteration trains it without `train()`",
                    mode.place.location,
                    help=f"call `{forward.name}.train()` after the evaluation, before training goes on",
                    related=(forward.place.location,),
                )


def _spared(facts: Facts) -> set[tuple[str, int, int]]:
    """The calls after which steps are taken, and none along the gradients of this model: others learn through it."""
    learns: dict[tuple[str, int, int], set[bool | None]] = {}
    for forward in facts.forwards:
        learns.setdefault(forward.place.spot, set()).add(forward.learns)
    return {spot for spot, answers in learns.items() if False in answers and True not in answers}
