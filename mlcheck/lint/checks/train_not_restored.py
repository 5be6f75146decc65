"""train-not-restored: an evaluation leaves the model in eval mode, and training goes on."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.judging import belongs_to_attack
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.values import Object, Symbol

LOOKS_AT = "model call"
_STOPS = ("no_grad", "inference_mode")


def check(facts: Facts) -> Iterator[Finding]:
    spared = _spared(facts) | _given_features(facts)
    for forward in facts.forwards:
        if not forward.trained or forward.moded == "no" or forward.grad.kind == "off" or _stops_gradient(forward):
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


def _stops_gradient(forward: Forward) -> bool:
    """Whether its class switches gradients off within `forward`: a wrapper of a backbone that nobody trains."""
    cls = forward.module.cls if isinstance(forward.module, Object) else None
    method = cls.find("forward") if cls is not None else None
    return method is not None and any(last_name(node) in _STOPS for node in walk(method.node))


def _given_features(facts: Facts) -> set[tuple[str, int, int]]:
    """The calls of modules that somebody hands over and nobody here trains: a backbone for the head that learns."""
    fed = {earlier.place.spot for forward in facts.forwards for earlier in forward.fed}
    trained = {forward.place.spot for forward in facts.forwards for mode in forward.modes if mode.kind == "train"}
    unknown = {forward.place.spot for forward in facts.forwards if isinstance(forward.module, Symbol)}
    return (fed & unknown) - trained


def _spared(facts: Facts) -> set[tuple[str, int, int]]:
    """The calls after which steps are taken, and none along the gradients of this model: others learn through it."""
    learns: dict[tuple[str, int, int], set[bool | None]] = {}
    for forward in facts.forwards:
        learns.setdefault(forward.place.spot, set()).add(forward.learns)
    return {spot for spot, answers in learns.items() if False in answers and True not in answers}
