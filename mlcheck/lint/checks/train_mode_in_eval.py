"""train-mode-in-eval: an evaluation switches the model to train mode."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward, Mode
from mlcheck.lint.judging import evaluates, is_meant_to_vary, is_named_for_evaluation
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.evaluation.shared_loops import always_in_train_mode

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    told = set[tuple[str, int]]()
    for finding in (*_switched(facts), *_of_shared_loops(facts)):
        spot = finding.location.path, finding.location.line
        if spot not in told:
            told.add(spot)
            yield finding


def _of_shared_loops(facts: Facts) -> Iterator[Finding]:
    for found in always_in_train_mode(facts.sites):
        yield Finding(
            f'`{found.model}` is put into train mode here, for "{found.split}" as well: '
            "Dropout drops, BatchNorm learns from the held-out data",
            found.switch.location,
            help=f'`{found.model}.train(mode == "train")`, with the name that the argument has',
            related=(found.told.location,),
        )


def _switched(facts: Facts) -> Iterator[Finding]:
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    scored = {forward for loss in facts.losses for forward in getattr(loss.input, "traces", ())}
    for_training = {mode for forward in facts.forwards if forward.trained for mode in forward.modes}
    learners = {forward.module for forward in facts.forwards if forward.trained}
    for forward in facts.forwards:
        if forward.place.spot in trained or forward.moded == "no" or not evaluates(forward):
            continue
        if forward.unread:  # a pass for BatchNorm's statistics alone
            continue
        around, text = _around(facts, forward)
        names = {forward.name, *map(_switched_by, forward.modes)}
        wanted = any(f"{name}.eval()" in text for name in names if name)
        if forward.moded == "unknown" and not wanted:  # else its author wants eval mode
            if forward.module not in learners or not _is_of_inputs_alone(forward):
                continue
        held_out = forward.split in ("val", "test") or (
            forward.loop is not None and forward.loop.split in ("val", "test")
        )
        if not held_out and forward not in scored and not is_named_for_evaluation(forward):
            continue
        if forward.moded == "unknown" and _is_for_losses(forward, around):
            continue
        for mode in forward.modes:
            if mode in for_training or not _is_switched_here(mode, forward) or is_meant_to_vary(forward):
                continue
            assert mode.place is not None
            if not _is_asked_for(mode.place.location.line, forward.place.location.line, around):
                name = _switched_by(mode) or forward.name
                yield Finding(
                    f"`{name}` is put into train mode here, and evaluated in it: "
                    "Dropout drops, BatchNorm learns from the held-out data",
                    mode.place.location,
                    help=f"call `{name}.eval()` before the evaluation",
                    related=(forward.place.location,),
                )


def _switched_by(mode: Mode) -> str:
    """`model` of the line `model.train()` that set the mode: it may be a list that holds what is called."""
    node = mode.place.node if mode.place is not None else None
    switch = node.func if isinstance(node, ast.Call) else None
    return ast.unparse(switch.value) if isinstance(switch, ast.Attribute) else ""


def _is_of_inputs_alone(forward: Forward) -> bool:
    """`model(images)` in a function named for evaluation: a detector that is to tell its losses needs targets too."""
    call = forward.place.node
    given = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
    several = any(isinstance(each, ast.Starred) or getattr(each, "arg", "") is None for each in given)
    return is_named_for_evaluation(forward) and len(given) == 1 and not several


def _is_for_losses(forward: Forward, around: ast.AST | None) -> bool:
    """`losses = detector(images, targets)` and `detector.eval()` beneath it: such a model tells them in train mode."""
    call = forward.place.node
    if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) < 2 or around is None:
        return False
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node) == f"{ast.unparse(call.func)}.eval()"
        and node.lineno > call.lineno
        for node in walk(around)
    )


def _around(facts: Facts, forward: Forward) -> tuple[ast.AST | None, str]:
    """The function around the call, else the file, and its text."""
    for file in facts.sites.files.values():
        if file.path == forward.place.path:
            line = forward.place.location.line
            around = [f.node for f in file.functions if f.node.lineno <= line <= (f.node.end_lineno or 0)]
            return (around[-1], file.module.text_of(around[-1])) if around else (file.module.source.tree, file.text)
    return None, ""


def _is_switched_here(mode: Mode, forward: Forward) -> bool:
    """Whether the very function that evaluates switched it, and the model is in that mode for certain."""
    if mode.kind != "train" or mode.place is None or mode.when is None or len({m.kind for m in forward.modes}) != 1:
        return False
    return mode.when.calls == forward.when.calls


def _is_asked_for(switch: int, call: int, around: ast.AST | None) -> bool:
    """Whether a condition around the line of the switch, and not around that of the call, asks for train mode."""
    asked = [node for node in walk(around) if isinstance(node, ast.If)] if around is not None else []
    ends = [(node.lineno, node.end_lineno or node.lineno) for node in asked]
    return any(first <= switch <= last and not first <= call <= last for first, last in ends)
