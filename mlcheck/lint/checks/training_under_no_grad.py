"""training-under-no-grad: a backward through a forward that recorded no graph."""

import ast
from collections.abc import Iterator
from itertools import chain, takewhile

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call

LOOKS_AT = "backward pass"
_OFF = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad")
_ON = ("enable_grad", "set_grad_enabled", "inference_mode(False")


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(chain(_through_forwards(facts), _under_decorators(facts)))


def _under_decorators(facts: Facts) -> Iterator[Finding]:
    """`@torch.no_grad()` above a function that trains, of whose forward the interpreter may have seen nothing."""
    if any(True for _ in facts.sites.mentioning(_ON)):
        return
    for file in facts.sites.mentioning(["no_grad", "inference_mode"]):
        for call in file.calls("backward"):
            decorator = _switched_off(call)
            if decorator is None or not _is_computed_here(call):
                continue
            yield Finding(
                "`backward()` runs on a loss that was computed with gradients switched off",
                call.place.location,
                help="take the decorator off, and put what is only measured under `with torch.no_grad():`",
                related=(file.place(decorator, call.context).location,),
            )


def _switched_off(call: Call) -> ast.expr | None:
    """The decorator that switches gradients off in the function around a call."""
    function = call.function
    if function is None:
        return None
    for decorator in function.node.decorator_list:
        named = call.file.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator, function.inner)
        if isinstance(named, str) and named in _OFF and not (isinstance(decorator, ast.Call) and decorator.args):
            return decorator
    return None


def _is_computed_here(call: Call) -> bool:
    """`loss.backward()` of a name that this function gives what a call returns: no loss that was handed in."""
    func = call.node.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or call.function is None:
        return False
    bindings = call.file.bindings(func.value.id, call.context)
    return bool(bindings) and all(
        binding.kind == "value"
        and isinstance(binding.value, ast.Call)
        and call.file.function_around(binding.context) is call.function
        for binding in bindings
    )


def _chosen(facts: Facts) -> Iterator[tuple[str, int, int]]:
    """Where backward is called on a condition that its function asks of its object: `if self.is_training:`."""
    for file in facts.sites.mentioning([".backward("]):
        for call in file.calls("backward"):
            inside = takewhile(lambda outer: outer.kind != "function", call.context.outwards())
            if any(isinstance(outer.node, ast.If) and _asks_object(outer.node.test) for outer in inside):
                yield call.place.spot


def _asks_object(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" for node in walk(test))


def _through_forwards(facts: Facts) -> Iterator[Finding]:
    chosen = set(_chosen(facts))
    for backward in facts.backwards:
        switches = [forward.grad for forward in backward.forwards]
        if backward.place.spot in chosen and not any(
            switch.place is not None and switch.place.symbol == backward.place.symbol for switch in switches
        ):
            continue  # `if self.is_training:` may well know that the caller has switched gradients off
        if switches and not backward.unseen and all(switch.kind == "off" for switch in switches):
            places = {switch.place for switch in switches if switch.place is not None}
            if len(places) == 1 and _is_left_off(facts, only := next(iter(places))):
                yield Finding(
                    "This disables gradients permanently: the `backward()` that follows runs on a loss without any",
                    only.location,
                    help="`with torch.no_grad():` around what is only measured, which switches them on again",
                    related=(backward.place.location,),
                )
                continue
            yield Finding(
                "`backward()` runs on a loss that was computed with gradients switched off",
                backward.place.location,
                help="take the training step out of the `no_grad` block, or drop the decorator",
                related=tuple(sorted(place.location for place in places)),
            )


def _is_left_off(facts: Facts, switch: Place) -> bool:
    """`torch.set_grad_enabled(False)`, a statement of its own."""
    file = facts.sites.at(switch.path)
    return file is not None and isinstance(switch.node, ast.Call) and switch.node in file.statements
