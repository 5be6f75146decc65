"""train-not-restored: an evaluation leaves the model in eval mode, and training goes on."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    for forward in facts.forwards:
        if not forward.trained or forward.moded == "no" or forward.grad.kind == "off":
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
