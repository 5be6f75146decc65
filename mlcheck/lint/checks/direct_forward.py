"""direct-forward: `model.forward(x)` in place of `model(x)`."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.sites import Call, Class, Function
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.modules import is_module, is_module_name

LOOKS_AT = "model call"


def check(facts: Facts) -> Iterator[Finding]:
    told = set()
    for bypass in facts.bypasses:
        told.add(bypass.place.spot)
        yield _finding(bypass.name, bypass.place)
    for file in facts.sites.mentioning([".forward("]):
        for call in file.calls("forward"):
            owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
            if owner is not None and call.place.spot not in told and _is_declared(call, owner):
                yield _finding(ast.unparse(owner), call.place)


def _finding(name: str, place: Place) -> Finding:
    return Finding(
        f"`{name}.forward()` leaves out the hooks of the module, and with them DDP, FSDP and profilers",
        place.location,
        help=f"call the module itself: `{name}(...)`",
    )


def _is_declared(call: Call, owner: ast.expr) -> bool:
    """Whether it is a parameter that is annotated as a module, or an attribute that holds such."""
    function = call.function
    if isinstance(owner, ast.Name):
        return function is not None and _is_annotated(function, owner.id)
    name = own_attribute(owner, function)
    if function is None or function.cls is None or not name:
        return False
    sets = function.cls.attribute(name)
    return bool(sets) and all(
        isinstance(assigned.value, ast.Name) and _is_annotated(where, assigned.value.id) for where, assigned in sets
    )


def _is_annotated(function: Function, name: str) -> bool:
    bound = function.file.bindings(name, function.inner)
    node = bound[0].node if len(bound) == 1 and bound[0].kind == "param" else None
    annotation = node.annotation if isinstance(node, ast.arg) else None
    named = function.file.resolve(annotation, function.defined.context) if annotation is not None else None
    return is_module(named) if isinstance(named, Class) else isinstance(named, str) and is_module_name(named)
