"""train-not-restored: an evaluation leaves the model in eval mode, and training goes on."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Mode, Place
from mlcheck.lint.judging import belongs_to_attack
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.training.modes_put_back import put_back_to_eval
from mlcheck.lint.values import Object, Symbol

LOOKS_AT = "model call"
_CLOCK = pattern(r"epoch|step|iter|round|turn|current", re.IGNORECASE)
_STOPS = ("no_grad", "inference_mode")


def check(facts: Facts) -> Iterator[Finding]:
    for first, second in put_back_to_eval(facts.sites):
        yield Finding(
            "This asks once more for the eval mode that was set above: the model never gets back to training mode",
            second.place.location,
            help=f"call `{ast.unparse(second.node.func).removesuffix('.eval')}.train()` here",
            related=(first.place.location,),
        )
    spared = _spared(facts) | _given_features(facts)
    for forward in facts.forwards:
        if not forward.trained or forward.moded == "no" or forward.grad.kind == "off" or _stops_gradient(forward):
            continue
        if forward.place.spot in spared or belongs_to_attack(forward):
            continue
        for mode in forward.modes:
            if mode.kind != "eval" or mode.place is None or mode.when is None or _is_remembered(facts, mode.place):
                continue
            if _left_by_helper(facts, mode, forward) or _left_by_evaluation(facts, mode, forward):
                yield Finding(
                    f"`{forward.name}` is put into eval mode here, and the training after it never calls `train()`",
                    mode.place.location,
                    help=f"restore the previous mode, or call `{forward.name}.train()` before training",
                    related=(forward.place.location,),
                )
            elif (
                _is_stepped(facts, forward)
                and _is_left_to_next_turn(mode, forward)
                and not _of_a_later_phase(facts, mode.place, forward)
                and not _begins_in_eval(facts, mode.place, forward)
            ):
                yield Finding(
                    f"`{forward.name}` is put into eval mode here, and the next iteration trains it without `train()`",
                    mode.place.location,
                    help=f"call `{forward.name}.train()` after the evaluation, before training continues",
                    related=(forward.place.location,),
                )


def _is_left_to_next_turn(mode: Mode, forward: Forward) -> bool:
    """Whether training goes on in a later turn of a loop, which does not begin with `train()`, be it on a condition."""
    loop = forward.when.later_turn(mode.when) if mode.when is not None else None
    switch = mode.place.node if mode.place is not None else None
    if loop is None or not isinstance(switch, ast.Call) or not isinstance(switch.func, ast.Attribute):
        return loop is not None
    owner = ast.unparse(switch.func.value)
    calls = [node for node in walk(loop.node) if isinstance(node, ast.Call) and not node.args]
    begins = [node for node in calls if ast.unparse(node.func) == f"{owner}.train"]
    return switch not in calls or not any(node.lineno < switch.lineno for node in begins)


def _begins_in_eval(facts: Facts, switched: Place, forward: Forward) -> bool:
    """Whether the first turn finds the model in eval mode, too, by other hands: `resnet50().eval()` before the loop."""
    return any(
        all(mode.kind == "eval" and mode.place is not None and mode.place.spot != switched.spot for mode in other.modes)
        for other in facts.forwards
        if other.place.spot == forward.place.spot and other.trained and other.modes
    )


def _is_stepped(facts: Facts, forward: Forward) -> bool:
    """Whether anything may step along its gradients, and they are not only looked at."""
    file = facts.sites.at(forward.place.path)
    return forward.learns is not None or file is None or ".step(" in file.text


def _is_remembered(facts: Facts, switched: Place) -> bool:
    """Whether the function around notes each `.training` that it finds, and calls `train()` by what it noted."""
    file = facts.sites.at(switched.path)
    line = switched.spot[1]
    functions = file.functions if file is not None else []
    around = [f for f in functions if f.node.lineno <= line <= (f.node.end_lineno or 0)]
    notes = (node for function in around for node in function.nodes if isinstance(node, ast.Attribute))
    words = {node.attr for node in notes if isinstance(node.ctx, ast.Load)}
    return {"training", "train"} <= words


def _left_by_helper(facts: Facts, mode: Mode, forward: Forward) -> bool:
    """Whether a function switched the mode, ran the model without gradients and returned, before a loop that trains.

    Who calls `eval()` beside the loop itself may want it so.
    """
    if mode.place is None or mode.when is None or not forward.learns or len(forward.modes) != 1:
        return False
    inside, now = mode.when.calls, forward.when.calls
    if len(inside) == 0 or now[: len(inside)] == inside or not forward.loops:
        return False
    if forward.place.symbol == mode.place.symbol or not set(mode.when.loops) <= set(forward.when.loops):
        return False
    return any(
        other.grad.kind == "off"
        and other.when.calls[: len(inside)] == inside
        and not other.touched.isdisjoint(forward.touched)
        for other in facts.forwards
    )


def _left_by_evaluation(facts: Facts, mode: Mode, forward: Forward) -> bool:
    """Whether a loop without gradients ran the model after `eval()`, in this turn and before the one that trains."""
    if mode.when is None or not forward.learns or len(forward.modes) != 1 or forward.moded != "yes":
        return False
    around, calls = mode.when.loops, mode.when.calls
    depth = len(around)
    if not around or forward.when.loops[:depth] != around or forward.when.calls[: len(calls)] != calls:
        return False
    for other in facts.forwards:
        if other is forward:
            return False
        apart = len(other.loops) > depth < len(forward.loops) and other.loops[depth] is not forward.loops[depth]
        if apart and other.grad.kind == "off" and mode in other.modes and other.when.loops[:depth] == around:
            if not other.touched.isdisjoint(forward.touched):
                return True
    return False


def _of_a_later_phase(facts: Facts, switched: Place, forward: Forward) -> bool:
    """Whether an `if` parts the two, and the way of `eval()` is for the time after training: `if epoch > last: ...`."""
    file = facts.sites.at(switched.path)
    if file is None or forward.place.path != switched.path:
        return False
    for node in walk(file.module.source.tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and "%" not in ast.unparse(node.test):
            for here, there in ((node.body, node.orelse), (node.orelse, node.body)):
                if _stands_in(switched.node, here) and _stands_in(forward.place.node, there):
                    return _may_be_later(node.test, here is node.body)
    return False


def _stands_in(node: ast.AST, block: list[ast.stmt]) -> bool:
    return any(part is node for statement in block for part in walk(statement))


def _may_be_later(test: ast.Compare, holds: bool) -> bool:
    """Whether a comparison comes to hold, or ceases to, as time goes on, so far as its sides tell."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return False
    left, right = (_CLOCK.search(ast.unparse(side)) is not None for side in (test.left, test.comparators[0]))
    grows = isinstance(test.ops[0], ast.Gt | ast.GtE) == left
    return left == right or grows == holds


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
