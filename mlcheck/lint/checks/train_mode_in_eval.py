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
        if forward.place.spot in trained or forward.moded == "no" or not evaluates(forward):
            continue
        if forward.moded == "unknown" and not _was_in_eval_mode(facts, forward):
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


def _was_in_eval_mode(facts: Facts, forward: Forward) -> bool:
    """Whether the function around the call puts the model into eval mode too: its author wants it there."""
    for file in facts.sites.files.values():
        if file.path == forward.place.path:
            line = forward.place.location.line
            around = [f.node for f in file.functions if f.node.lineno <= line <= (f.node.end_lineno or 0)]
            return f"{forward.name}.eval()" in (file.module.text_of(around[-1]) if around else file.text)
    return False


def _is_switched_here(mode: Mode, forward: Forward) -> bool:
    """Whether the very function that evaluates switched it, and the model is in that mode for certain."""
    if mode.kind != "train" or mode.place is None or mode.when is None or len({m.kind for m in forward.modes}) != 1:
        return False
    return mode.when.calls == forward.when.calls
