"""teacher-not-detached: a graph is kept for a teacher that nobody trains."""

import ast
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.lint.facts import Facts, Forward, Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call, Class
from mlcheck.lint.sites.evaluation.without_gradients import switches_off
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.weights.moved_averages import Moved, moved_averages
from mlcheck.lint.values import Object, Value, owner_key, traces_of

LOOKS_AT = "student loss"
_TEACHERS = ("teacher", "ema", "momentum")


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(chain(_not_detached(facts), _moved_twice(facts), _fixed_and_trained(facts)))


def _moved_twice(facts: Facts) -> Iterator[Finding]:
    """A network that follows another by an average of its weights, and that a step moves along its gradients too."""
    for moved in moved_averages(facts.sites):
        name, followed = last_name(moved.average), last_name(moved.followed)
        leads = [forward for forward in facts.forwards if forward.name.rpartition(".")[2] == followed]
        for forward in facts.forwards if any(each.learns and each.grad.kind == "on" for each in leads) else ():
            same = forward.place.path == moved.loop.path and forward.name.rpartition(".")[2] == name
            if same and forward.trained and forward.learns and forward.grad.kind == "on" and not forward.frozen:
                yield _twice(forward.name, forward.place, moved)
        yield from _moved_inside(facts, moved)


def _moved_inside(facts: Facts, moved: Moved) -> Iterator[Finding]:
    """`self.target(x)` in the forward pass of a module that an optimizer has as a whole."""
    held = {owner for optimizer in facts.training.optimizers.values() for owner in optimizer.owners}
    name = own_attribute(moved.average, moved.method)
    cls = moved.method.cls if name else None
    if cls is None or "requires_grad" in cls.text or "detach" in cls.text:
        return
    whole = [
        forward
        for forward in facts.forwards
        if isinstance(forward.module, Object) and forward.module.cls is not None and forward.learns
        if forward.module.cls.node is cls.node and forward.module.id in held
    ]
    if whole and any(True for _ in _asked_with_gradients(cls, own_attribute(moved.followed, moved.method))):
        for call in _asked_with_gradients(cls, name):
            yield _twice(ast.unparse(call.node.func), call.place, moved)


def _asked_with_gradients(cls: Class, name: str) -> Iterator[Call]:
    """The calls of a part in the forward pass of its module."""
    for call in cls.file.calls(name):
        function = call.function
        if function is not None and call.cls is cls and own_attribute(call.node.func, function) == name:
            if function is cls.find("forward") and not _is_under_no_grad(call):
                yield call


def _is_under_no_grad(call: Call) -> bool:
    around = [outer.node for outer in call.context.outwards() if isinstance(outer.node, ast.With)]
    return any(map(switches_off, around)) or bool(call.function is not None and call.function.node.decorator_list)


def _twice(name: str, place: Place, moved: Moved) -> Finding:
    return Finding(
        f"`{name}` follows another network by an average, and gradients move it as well: it is in the optimizer, and "
        "its outputs carry a graph",
        place.location,
        help=f"call it under `torch.no_grad()`, or `.detach()` what `{name}` returns",
        related=(moved.loop.location,),
    )


def _fixed_and_trained(facts: Facts) -> Iterator[Finding]:
    """A teacher of loaded weights, in eval mode all along, that the student's loss trains with the student."""
    for loss in facts.losses:
        student = _forwards(loss.input)
        for forward in sorted(_forwards(loss.target) - student, key=lambda forward: forward.place.spot):
            still = bool(forward.modes) and all(mode.kind == "eval" for mode in forward.modes)
            if student and _is_teacher(forward) and forward.restored and still and forward.learns:
                if forward.grad.kind == "on" and not forward.frozen:
                    yield Finding(
                        f"`{forward.name}` is in the optimizer, and the loss of the student moves it towards the "
                        "student",
                        forward.place.location,
                        help="call it under `torch.no_grad()`, and give the optimizer the student alone",
                        related=(loss.place.location,),
                    )


def _not_detached(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    optimizers = list(facts.training.optimizers.values())
    trained = {owner for optimizer in optimizers for owner in optimizer.owners}
    if not optimizers or any(not optimizer.owners for optimizer in optimizers):
        return
    for loss in facts.losses:
        student = _forwards(loss.input)
        teacher = _forwards(loss.target) - student
        facts.sites.seen[LOOKS_AT] += bool(student and teacher)
        for forward in sorted(teacher, key=lambda forward: forward.place.spot):
            if student and _is_teacher(forward) and owner_key(forward.module) not in trained:
                if forward.grad.kind == "on" and not forward.frozen:
                    yield Finding(
                        f"`{forward.name}` is in no optimizer, and its graph is kept and walked back in every step",
                        forward.place.location,
                        help=f"call it under `torch.no_grad()`, or `.detach()` what `{forward.name}` returns",
                        related=(loss.place.location,),
                    )


def _forwards(value: Value | None) -> frozenset[Forward]:
    found = traces_of(value) if value is not None else ()
    return frozenset(trace for trace in found if isinstance(trace, Forward))


def _is_teacher(forward: Forward) -> bool:
    words = forward.name.lower().replace(".", "_").split("_")
    return any(word in _TEACHERS for word in words)
