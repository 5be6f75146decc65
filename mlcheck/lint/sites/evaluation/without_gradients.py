"""Where something is computed without gradients: as its words tell, or as the interpreter saw it run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File

_MANAGERS = ("no_grad", "inference_mode")


def evaluating_files(facts: Facts) -> Iterator[File]:
    """Those with `no_grad`, and those with a forward pass that ran while gradients were switched off."""
    seen = {forward.place.path for forward in facts.forwards if forward.grad.kind == "off"}
    for file in facts.sites.mentioning(["for "]):
        if file.path in seen or any(word in file.text for word in _MANAGERS):
            yield file


def quiet_calls(facts: Facts) -> frozenset[ast.AST]:
    """The forward passes that ran with gradients switched off, and never with them."""
    calls = {forward.place.node for forward in facts.forwards if forward.grad.kind == "off"}
    return frozenset(calls - {forward.place.node for forward in facts.forwards if forward.grad.kind != "off"})


def blocks_without(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """What stands under `with torch.no_grad():`."""
    for node in nodes:
        if isinstance(node, ast.With) and switches_off(node):
            yield from walk(node)


def switches_off(block: ast.With) -> bool:
    items = [item.context_expr for item in block.items]
    return any(
        isinstance(item, ast.Call) and (last_name(item.func) in _MANAGERS or _is_set_off(item)) for item in items
    )


def _is_set_off(call: ast.Call) -> bool:
    """`set_grad_enabled(False)`."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    off = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
    return off and last_name(call.func) == "set_grad_enabled"
