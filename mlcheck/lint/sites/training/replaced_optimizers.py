"""Schedulers of an optimizer that another one replaces while it trains, by name or as part of an object."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, is_none
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet, Binding
from mlcheck.lint.sites.training.optimizers import OPTIMIZERS, SCHEDULERS, optimizers

_SETS_AGAIN = ("param_groups", "setattr", "load_state_dict")


class Kept(NamedTuple):
    """The scheduler and its name, the name of the optimizer, and where a new one takes that name."""

    scheduler: Call
    name: str
    optimizer: str
    renewed: Place


def kept_by_name(sites: Sites) -> Iterator[Kept]:
    """`scheduler = StepLR(optimizer, 5)`, and beneath `optimizer = SGD(...)` above `scheduler.step()`."""
    for made in sites.once(optimizers):
        names = made.file.names_given(made.node)
        bindings = made.file.bindings(names[0], made.context) if len(names) == 1 else []
        for call in _schedulers_of(made, names[0]) if len(bindings) > 1 else ():
            (scheduler,) = call.file.names_given(call.node)
            renewed = next((b.node for b in bindings if _takes_over(b, call, made)), None)
            steps = (step for step in call.file.calls("step") if step.function is call.function)
            stepped = [step for step in steps if is_name(step.owner, scheduler)]
            last = max((_line(b.node) for b in call.file.bindings(scheduler, call.context)), default=0)
            if renewed is not None and last <= _line(renewed) and any(_line(s.node) > _line(renewed) for s in stepped):
                yield Kept(call, scheduler, names[0], made.file.place(renewed, made.context))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _schedulers_of(made: Call, optimizer: str) -> Iterator[Call]:
    """The schedulers of this optimizer, made beneath it and under no condition."""
    for call in made.file.calls(*SCHEDULERS):
        first = call.argument("optimizer", 0)
        named = call.file.resolve(call.node.func, call.context)
        if not isinstance(named, str) or not named.startswith("torch.optim.lr_scheduler."):
            continue
        if not is_name(first, optimizer) or call.context is not made.context:
            continue
        if call.node.lineno > made.node.lineno and len(call.file.names_given(call.node)) == 1:
            yield call


def _takes_over(binding: Binding, scheduler: Call, made: Call) -> bool:
    """Whether it makes another of torch's optimizers below the scheduler."""
    named = made.file.resolve(getattr(binding.value, "func", None), binding.context)
    return (
        binding.kind == "value"
        and isinstance(named, str)
        and canonical(named).startswith("torch.optim.")
        and named.rpartition(".")[2] in OPTIMIZERS
        and _line(binding.node) > scheduler.node.lineno
        and scheduler.context in binding.context.outwards()
        and made.file.function_around(binding.context) is made.function
    )


def kept_by_object(sites: Sites) -> Iterator[Kept]:
    """`self.sched = StepLR(self.opt, 5)` in the constructor, and in a method that is called `self.opt = SGD(...)`."""
    made = {id(call.node) for call in sites.once(optimizers)}
    for call in sites.calls(*(f"torch.optim.lr_scheduler.{name}" for name in SCHEDULERS)) if made else ():
        function, given = call.function, call.argument("optimizer", 0)
        attribute = own_attribute(given, function) if given is not None and function is not None else ""
        names = _kept_as(call, function) if function is not None else ()
        if not attribute or len(names) != 1 or function is None or function.cls is None:
            continue
        cls = function.cls
        if len(cls.attribute(names[0])) != 1 or f".{names[0]}.step(" not in cls.text:
            continue
        later = [each for each in cls.attributes.get(attribute, []) if each[0].name != "__init__"]
        if len(later) == 1 and id(later[0][1].value) in made and _is_renewed(cls, *later[0], names[0]):
            yield Kept(call, names[0], attribute, later[0][0].place(later[0][1].node))


def _kept_as(call: Call, function: Function) -> tuple[str, ...]:
    """What the constructor keeps the scheduler as, made by itself or by the method that it calls for it."""
    if function.name == "__init__":
        return call.file.names_given(call.node)
    asked = f"self.{function.name}("
    made = function.cls.attributes.items() if function.cls is not None and [*returns(function)] == [call.node] else ()
    return tuple(
        name
        for name, sets in made
        for where, each in sets
        if where.name == "__init__" and each.value is not None and ast.unparse(each.value).startswith(asked)
    )


def _is_renewed(cls: Class, method: Function, renewed: AttributeSet, scheduler: str) -> bool:
    """Whether it runs in the object's own loop, or between two trainings, where nobody speaks of the scheduler."""
    if any(outer.kind == "loop" for outer in renewed.context.outwards()):
        return ".step(" in method.text and f"{scheduler}.optimizer" not in method.text
    if scheduler in method.text or any(word in method.text for word in _SETS_AGAIN):
        return False
    if any(_asks_whether_there(outer.node) for outer in renewed.context.outwards()):
        return False
    calls = [call for call in callers(cls.file.sites, method) if call.function is not None]
    return bool(calls) and all(
        _is_in_own_loop(cls, call) or _trains_again(cls, call, f".{scheduler}.step(") for call in calls
    )


def _is_in_own_loop(cls: Class, call: Call) -> bool:
    function = call.function
    return function is not None and function.cls is cls and bool(call.loops) and ".step(" in function.text


def _trains_again(cls: Class, call: Call, steps: str) -> bool:
    """`job.fit()`, `job.unfreeze()` and `job.fit()` again, which steps the schedule."""
    if call.owner is None or call.function is None or call.function.cls is cls or call.loops:
        return False
    fits = [method.name for method in cls.methods.values() if steps in method.text]
    others = [other for other in call.file.calls(*fits) if other.function is call.function]
    same = [o for o in others if o.owner is not None and ast.unparse(o.owner) == ast.unparse(call.owner)]
    lines = [other.node.lineno for other in same]
    return any(line < call.node.lineno for line in lines) and any(line > call.node.lineno for line in lines)


def _asks_whether_there(node: ast.AST) -> bool:
    """`if self.opt is None:`, where it is the first after all."""
    compares = [node.test] if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) else []
    return any(is_none(compare.comparators[0]) for compare in compares)
