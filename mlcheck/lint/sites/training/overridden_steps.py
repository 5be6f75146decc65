"""A method that takes the place of one that steps the optimizer, clears and computes gradients, and steps nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites


def overridden_without_step(sites: Sites) -> Iterator[tuple[Call, str, Call]]:
    """The backward pass, the optimizer's attribute, and the step of the method that is overridden."""
    for file in sites.mentioning([".backward("]):
        for backward in file.calls("backward"):
            method = backward.function
            above = _overridden(method) if method is not None else None
            if method is None or above is None or "super()" in method.text or ".step" in method.text:
                continue
            cleared = {
                own_attribute(c.owner, method) for c in file.calls("zero_grad") if c.function is method and c.owner
            }
            for step in above.file.calls("step"):
                name = own_attribute(step.owner, above) if step.owner is not None and step.function is above else ""
                if name and name in cleared and not _is_used_elsewhere(method, above, name):
                    yield backward, name, step
                    break


def _overridden(method: Function) -> Function | None:
    """The nearest method of that name in the project classes above."""
    line = method.cls.line[1:] if method.cls is not None else ()
    return next((cls.methods[method.name] for cls in line if method.name in cls.methods), None)


def _is_used_elsewhere(method: Function, above: Function, name: str) -> bool:
    """Whether other code may step it: it is handed on, or another method or file has it."""
    if method.cls is None:
        return True
    others = [each for cls in method.cls.line for each in cls.methods.values() if each not in (method, above)]
    if any(f".{name}.step" in each.text for each in others):
        return True
    inside = [node for node in method.nodes if isinstance(node, ast.Attribute) and node.attr == name]
    owners = {id(node.value) for node in method.nodes if isinstance(node, ast.Attribute)}
    texts = (file.text for file in method.file.sites.files.values())
    outside = any(f"{name}.step(" in text.replace(f"{method.receiver}.{name}.step(", "") for text in texts)
    return outside or any(id(node) not in owners for node in inside)
