"""Modes that a function sets for a while, and is to put back behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites


def put_back_to_eval(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """`if switch: net.eval()`, the evaluation, and behind it once more `if switch: net.eval()`, which changes nothing.

    With both switches; nothing where the model runs behind the second, or a call of `train` stands beside them.
    """
    for file in sites.mentioning([".eval()"]):
        switches = [
            call
            for call in file.calls("eval")
            if not call.node.args and isinstance(call.owner, ast.Attribute | ast.Name)
        ]
        for number, first in enumerate(switches):
            asked = first.context.node
            for second in switches[number + 1 :]:
                again = second.context.node
                if first.function is None or second.function is not first.function or asked is again:
                    continue
                if not isinstance(asked, ast.If) or not isinstance(again, ast.If):
                    continue
                owner = ast.unparse(first.node.func.value) if isinstance(first.node.func, ast.Attribute) else ""
                same = ast.unparse(asked) == ast.unparse(again) and first.context.outer is second.context.outer
                if same and not _is_used_behind(second, owner) and f"{owner}.train(" not in first.function.text:
                    yield first, second


def _is_used_behind(switch: Call, owner: str) -> bool:
    nodes = switch.function.nodes if switch.function is not None else []
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and node.lineno > switch.node.lineno
        and any(ast.unparse(part) == owner for part in walk(node))
        for node in nodes
    )
