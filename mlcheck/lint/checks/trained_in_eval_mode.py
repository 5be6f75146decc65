"""trained-in-eval-mode: a loop is entered in eval mode, and trains."""

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Mode, Place
from mlcheck.lint.judging import belongs_to_attack
from mlcheck.lint.values import Object, owner_key

LOOKS_AT = "model call"
_SHORT = 3
_MEANT = pattern(r"freez|frozen|fix|requires_grad|BatchNorm|\bbn\b|_bn\b|bn_|\bfor |no_grad|return ", re.IGNORECASE)
"""What a function has that puts a model into eval mode on purpose, or to evaluate it."""


def check(facts: Facts) -> Iterator[Finding]:
    stepped = {step.key for step in facts.steps}
    made = [optimizer for key, optimizer in facts.training.optimizers.items() if key in stepped]
    held = {owner for optimizer in made for owner in optimizer.owners}
    for forward in facts.forwards:
        if owner_key(forward.module) not in held or not _is_trained(forward):
            continue
        place = _put_beside(facts, forward, *forward.modes)
        if place is not None:
            yield Finding(
                f"`{forward.name}` is trained in eval mode: dropout is off, and batch norm keeps its first averages",
                place.location,
                help=f"call `{forward.name}.train()`; to freeze normalisation alone, put those layers into eval mode",
                related=(forward.place.location,),
            )


def _is_trained(forward: Forward) -> bool:
    """Whether its weights move in a loop, and it would compute otherwise in train mode."""
    if not forward.trained or not forward.learns or forward.frozen or forward.grad.kind == "off":
        return False
    return forward.moded != "no" and bool(forward.loops) and len(forward.modes) == 1 and not belongs_to_attack(forward)


def _put_beside(facts: Facts, forward: Forward, mode: Mode) -> Place | None:
    """The `eval()` above the loop, in the same function and under no condition: what comes first in it is training."""
    place, when = mode.place, mode.when
    if mode.kind != "eval" or place is None or when is None:
        return None
    beside = place.symbol == forward.place.symbol
    if not beside and not _only_sets_mode(facts, forward, mode):
        return None
    is_new = isinstance(forward.module, Object) and forward.moded == "yes" and not forward.restored
    is_outside = len(when.loops) < len(forward.when.loops) or (is_new and _is_for_attack(facts, forward))
    if forward.when.later_turn(when) is not None or not is_outside:
        return None
    if not when.loops and not is_new:  # said once, of a model that has learnt before: fine-tuning may mean it
        return None
    call = facts.sites.call_at(place)
    sure = call is not None and not any(outer.kind in ("if", "try") for outer in call.context.outwards())
    return place if sure or not beside else None


def _only_sets_mode(facts: Facts, forward: Forward, mode: Mode) -> bool:
    """`set_mode(net, "eval")` above the loop: a function that is called there, and does little else.

    Which of its branches runs was followed: had that been open, there would be two modes.
    """
    above = forward.when.calls
    if mode.place is None or mode.when is None or mode.when.calls[: len(above)] != above:
        return False
    call = facts.sites.call_at(mode.place)
    helper = call.function if call is not None else None
    if helper is None or len(mode.when.calls) != len(above) + 1:
        return False
    return len(helper.node.body) <= _SHORT and _MEANT.search(helper.text) is None


def _is_for_attack(facts: Facts, forward: Forward) -> bool:
    """`model.eval(); adv = attack(model, x, y)`, above the call that trains and in the mode that the attack needs."""
    same = [each for each in facts.forwards if each.module == forward.module and each.modes == forward.modes]
    if any(belongs_to_attack(each) and each.when.calls != forward.when.calls for each in same):
        return True
    deeper = any(len(each.when.loops) > len(forward.when.loops) and _is_beside(each, forward) for each in same)
    call = facts.sites.call_at(forward.place)
    text = call.function.text if deeper and call is not None and call.function is not None else ""
    return "autograd.grad(" in text and "sign(" in text


def _is_beside(attack: Forward, forward: Forward) -> bool:
    """Whether it stands above the other in the same function."""
    line = getattr(forward.place.node, "lineno", 0)
    return attack.place.symbol == forward.place.symbol and getattr(attack.place.node, "lineno", 0) < line
