"""zero-grad-before-step: the gradients are cleared before the optimizer has read them."""

import ast
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding, Location, first_of_each_line
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.training.written_steps import cleared_between

LOOKS_AT = "optimizer step"


_OF_INPUTS = pattern(
    r"(?<!zero_)(?<!no_)(?<!enable_)grad\b|requires_grad|\badv|perturb|attack|delta|epsilon|closure|warm"
)
_HOOKS = ("on_after_backward", "on_before_optimizer_step")
_OF_LIGHTNING = (".LightningModule", ".Callback")


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(chain(_seen(facts), _written(facts), _in_hooks(facts), _between_losses(facts)))


def _written(facts: Facts) -> Iterator[Finding]:
    """Where nothing is known of model and optimizer but the order in which they are used."""
    for clear, step in cleared_between(facts.sites):
        yield _erased(clear.place.location, step.place.location)


def _erased(cleared: Location, stepped: Location) -> Finding:
    return Finding(
        "The gradients are cleared between `backward()` and `step()`: the step has no gradients to apply",
        cleared,
        help="clear them before `backward()` or after `step()`",
        related=(stepped,),
    )


def _in_hooks(facts: Facts) -> Iterator[Finding]:
    """`zero_grad()` of all gradients, always, in a hook that Lightning calls between the two."""
    for file in facts.sites.mentioning(_HOOKS):
        for call in file.calls("zero_grad"):
            hook, owner = call.function, call.node.func
            if hook is None or hook.cls is None or hook.name not in _HOOKS or call.context.node is not hook.node:
                continue
            text = ast.unparse(owner.value) if isinstance(owner, ast.Attribute) else ""
            whole = text in hook.parameters or "optimizer" in text
            if whole and any(name.endswith(_OF_LIGHTNING) for name in hook.cls.libraries):
                yield Finding(
                    f"`{hook.name}` runs after `backward()` and before the step: the step has no gradients to apply",
                    call.place.location,
                    help="leave the clearing to Lightning, which does it before `backward()`",
                )


def _seen(facts: Facts) -> Iterator[Finding]:
    at_once = {
        clearing.place.spot
        for clearing in facts.training.clearings
        if all(turn == 1 for _, turn in clearing.when.loops)
    }  # a later turn may clear what the one before has left on purpose, and then step under some condition
    for step in facts.steps:
        for grads in step.grads:
            cleared = grads.place
            if grads.kind == "erased" and cleared is not None and (step.always or cleared.spot in at_once):
                if not (_is_asked_for(facts, cleared, step.place) or _is_refilled(facts, cleared, step.place)):
                    yield _erased(cleared.location, step.place.location)


def _is_refilled(facts: Facts, cleared: Place, stepped: Place) -> bool:
    """`zero_grad()`, the loop over the batches, and a step for what is left over: only with no batch it has none."""
    clear, step = facts.sites.call_at(cleared), facts.sites.call_at(stepped)
    if clear is None or step is None or clear.function is not step.function:
        return False
    loops = {loop.node for backward in facts.backwards for loop, _ in backward.when.loops}
    between = range(cleared.spot[1], stepped.spot[1])
    found = clear.function.all(ast.For) if clear.function is not None else []
    return any(loop.lineno in between and (loop.end_lineno or 0) in between for loop in found if loop in loops)


def _is_asked_for(facts: Facts, cleared: Place, stepped: Place) -> bool:
    """`if ignored: optimizer.zero_grad()` before a step that comes either way, by what a caller asks."""
    clear, step = facts.sites.call_at(cleared), facts.sites.call_at(stepped)
    if clear is None or step is None or clear.function is None or clear.function is not step.function:
        return False
    behind = conditions(step.context)
    own = [test for test in conditions(clear.context) if test not in behind]
    return any(isinstance(test, ast.Name) and test.id in clear.function.parameters for test in own)


def _between_losses(facts: Facts) -> Iterator[Finding]:
    """`first.backward(); optimizer.zero_grad(); second.backward(); optimizer.step()`: the first loss trains nothing.

    Not where the first one may be for its gradients by an input, as for a perturbation, or for a look at them.
    """
    backwards = {backward.place.spot: backward for backward in facts.backwards}
    for clearing in facts.training.clearings:
        fresh = [grads.place for grads in clearing.grads if grads.kind == "fresh" and grads.choice is None]
        if not clearing.always or len(fresh) != len(clearing.grads) or len(fresh) != 1 or fresh[0] is None:
            continue
        first, call = backwards.get(fresh[0].spot), facts.sites.call_at(clearing.place)
        if first is None or call is None or first.reached != {clearing.key}:
            continue
        nodes = call.function.nodes if call.function is not None else call.file.nodes_in(call.file.module.source.tree)
        text = call.function.text if call.function is not None else call.file.text
        loops = [loop.node for loop, _ in clearing.when.loops]
        taken = any(
            "step" in last_name(node.func) and first.place.spot[1] < node.lineno < clearing.place.spot[1]
            for node in nodes
            if isinstance(node, ast.Call)
        )
        above = first.place.spot < clearing.place.spot and fresh[0].node in nodes  # else it is that of an earlier turn
        if not above or taken or _OF_INPUTS.search(text):
            continue
        for step in facts.steps:
            used = {grads.place.spot for grads in step.grads if grads.place is not None and grads.kind == "fresh"}
            if step.key != clearing.key or step.place.node not in nodes or first.place.spot in used:
                continue
            together = first.when.loops == clearing.when.loops and loops == [loop.node for loop, _ in step.when.loops]
            if used and together:
                yield Finding(
                    "This clears the gradients of the loss above, which no step has taken: only the next loss trains",
                    clearing.place.location,
                    help="clear them once, before the first `backward()`: the gradients of both losses add up",
                    related=(first.place.location, step.place.location),
                )
                break
