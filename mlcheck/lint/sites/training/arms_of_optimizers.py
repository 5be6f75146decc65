"""Functions that make one optimizer or another, of the lists that a model's parameters were sorted into."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.sorted_parameters import lists_sorted


def left_by_one_arm(sites: Sites) -> Iterator[Finding]:
    """`return SGD([{"params": slow}, {"params": fast}])` for one choice, and `return Adam(fast)` for another."""
    made: dict[Function, list[Call]] = {}
    for call in sites.once(optimizers):
        if call.function is not None:
            made.setdefault(call.function, []).append(call)
    for function, calls in made.items():
        sorted_ = lists_sorted(function) if len(calls) > 1 and _are_one(function, calls) else frozenset()
        held = [(call, _names_in(call) & sorted_) for call in calls] if len(sorted_) > 1 else []
        for call, names in held:
            larger = (other for other, more in held if names and names < more)
            whole = next((other for other in larger if _is_choice_of_kind(call, other)), None)
            if whole is not None:
                left = min(_names_in(whole) & sorted_ - names)
                yield Finding(
                    f"`{left}` is in the optimizer of the other choice and not in this one: its parameters keep their "
                    "first values",
                    call.place.location,
                    help=f"give it `{left}` as well, or freeze its parameters",
                    related=(whole.place.location,),
                )


def _are_one(function: Function, calls: list[Call]) -> bool:
    """Whether one of them alone is made: each is what the function returns, or is given the same name."""
    if all(any(value is call.node for value in returns(function)) for call in calls):
        return True
    names = [call.file.names_given(call.node) for call in calls]
    return all(len(each) == 1 and each == names[0] for each in names)


def _is_choice_of_kind(one: Call, other: Call) -> bool:
    """`if kind == "sgd"`: of two optimizers, not of what is to be trained, as `if freeze` is."""
    kinds = {call.name.rpartition(".")[2].lower() for call in (one, other)}
    tests = [part for call in (one, other) for test in conditions(call.context) for part in walk(test)]
    words = {part.value.lower() for part in tests if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return len(kinds) == 2 and any(word and word in kind for word in words for kind in kinds)


def _names_in(call: Call) -> set[str]:
    """The names in what the optimizer is given, also behind one that holds the groups."""
    given = call.argument("params", 0)
    made = source(call.file, given, call.context)[0] if isinstance(given, ast.expr) else None
    parts = [part for each in (given, made) if isinstance(each, ast.AST) for part in walk(each)]
    return {part.id for part in parts if isinstance(part, ast.Name)}
