"""ignite-contract: nobody switches the mode, where Ignite's own engines would have."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Function, Sites
from mlcheck.lint.sites.origins import returns

LOOKS_AT = "Ignite engine"
WORDS = ("ignite",)
_ENGINES = ("ignite.engine.Engine", "ignite.engine.engine.Engine")
_MADE = "ignite.engine.create_supervised_evaluator"
_EVAL = pattern(r"\.eval\(\)|\.train\((?:mode=)?False\)")
_TRAIN = pattern(r"\.train\((?:mode=)?(?:True)?\)|\.train\(mode|create_supervised_trainer")
_NO_GRAD = ("no_grad", "inference_mode")


def check(facts: Facts) -> Iterator[Finding]:
    sites = facts.sites
    engines = [(call, step) for call in sites.calls(*_ENGINES) if (step := _step(call)) is not None]
    evaluators = list(sites.calls(_MADE))
    sites.seen[LOOKS_AT] = len(engines) + len(evaluators)
    yield from _called_too_soon(sites)
    switched = [step for _, step in engines if _EVAL.search(_text(step))]
    for call, step in engines:
        if ".backward(" in _text(step):
            if (evaluators or switched) and not _is_anywhere(sites, _TRAIN):
                yield Finding(
                    "The evaluator puts the model into eval mode, and nothing puts it back: "
                    "from the first evaluation on it trains without dropout and with frozen statistics",
                    step.place().location,
                    help="call `model.train()` at the top of the training step",
                    related=((evaluators[0] if evaluators else call).place.location,),
                )
        elif any(word in _text(step) for word in _NO_GRAD) and not _is_anywhere(sites, _EVAL) and not evaluators:
            if _has_modes(sites):
                yield Finding(
                    "The evaluation runs in train mode: an Engine of your own switches nothing",
                    step.place().location,
                    help="call `model.eval()` at the top of the step",
                    related=(call.place.location,),
                )


def _called_too_soon(sites: Sites) -> Iterator[Finding]:
    """`add_event_handler(Events.EPOCH_COMPLETED, validate())`, of a function that returns no handler."""
    for file in sites.mentioning(["add_event_handler"]):
        for call in file.calls("add_event_handler") if "ignite" in file.text else ():
            handler = call.argument("handler", 1)
            named = file.resolve(handler.func, call.context) if isinstance(handler, ast.Call) else None
            if isinstance(named, Function) and not list(returns(named)) and not _is_changed(named):
                yield Finding(
                    f"`{named.name}` runs here, once, and nothing is left to run at the event",
                    call.place.location,
                    help=f"give the function itself: `{named.name}`; arguments of its own go behind it",
                )


def _is_changed(function: Function) -> bool:
    """Whether calling it gives something else than its body returns."""
    return bool(function.node.decorator_list) or any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in function.nodes
    )


def _step(call: Call) -> Function | None:
    given = call.argument("process_function", 0)
    named = call.file.resolve(given, call.context) if given is not None else None
    return named if isinstance(named, Function) else None


def _text(step: Function) -> str:
    """The step with its decorators, which may hold `torch.no_grad()`."""
    decorators = "\n".join(step.file.module.text_of(node) for node in step.node.decorator_list)
    return decorators + step.text


def _is_anywhere(sites: Sites, wanted: re.Pattern[str]) -> bool:
    return any(wanted.search(file.text) for file in sites.files.values())


def _has_modes(sites: Sites) -> bool:
    """Whether a model of the program certainly has dropout or batch normalisation."""
    names = ("Dropout", "Dropout2d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
    return any(True for _ in sites.calls(*(f"torch.nn.{name}" for name in names)))
