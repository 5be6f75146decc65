"""train-mode-in-eval: an evaluation switches the model to train mode."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward, Mode
from mlcheck.lint.judging import evaluates, is_meant_to_vary, is_named_for_evaluation

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    scored = {forward for loss in facts.losses for forward in getattr(loss.input, "traces", ())}
    for_training = {mode for forward in facts.forwards if forward.trained for mode in forward.modes}
    for forward in facts.forwards:
        if forward.place.spot in trained or forward.moded != "yes" or not evaluates(forward):
            continue
        if forward.split not in ("val", "test") and forward not in scored and not is_named_for_evaluation(forward):
            continue
        for mode in forward.modes:
            if mode not in for_training and _is_switched_here(mode, forward) and not is_meant_to_vary(forward):
                assert mode.place is not None
                yield Finding(
                    f"`{forward.name}` is put into train mode here, and evaluated in it: "
                    "Dropout drops, BatchNorm learns from the held-out data",
                    mode.place.location,
                    help=f"call `{forward.name}.eval()` before the evaluation",
                    related=(forward.place.location,),
                )


def _is_switched_here(mode: Mode, forward: Forward) -> bool:
    """Whether the very function that evaluates switched it, and the model is in that mode for certain."""
    if mode.kind != "train" or mode.place is None or mode.when is None or len({m.kind for m in forward.modes}) != 1:
        return False
    return mode.when.calls == forward.when.calls
