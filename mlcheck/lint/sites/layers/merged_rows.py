"""Softmaxes over rows that are the steps of all samples: `(b, t, k)` as `(b * t, k)`, over dimension 0."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.first_dimension import is_over_first, layers_over_first
from mlcheck.lint.sites.model import Call, Class


def over_merged_rows(cls: Class) -> Iterator[Place]:
    """`softmax(scores.view(b * t, k), dim=0)`, and its result as `(b, t, k)` again: each sample by itself."""
    if ".view(" not in cls.text and ".reshape(" not in cls.text:
        return
    functions = (call for call in cls.file.calls("softmax") if call.cls is cls and is_over_first(call))
    for call in (*functions, *layers_over_first(cls)):
        merged = _merged(call)
        if merged is not None and _is_taken_apart(call, *merged):
            yield call.place


def _merged(call: Call) -> tuple[str, str] | None:
    """`b` and `t`, where the softmax is taken of `x.view(b * t, k)`."""
    func = call.node.func
    given = call.node.args[0] if call.node.args and not isinstance(call.node.args[0], ast.Constant) else None
    given = given or (func.value if isinstance(func, ast.Attribute) else None)
    made, _ = source(call.file, given, call.context) if given is not None else (None, None)
    match made:
        case ast.Call(
            func=ast.Attribute(attr="view" | "reshape"),
            args=[ast.BinOp(left=ast.Name(id=first), op=ast.Mult(), right=ast.Name(id=second)), ast.expr()],
        ):
            return first, second
    return None


def _is_taken_apart(call: Call, first: str, second: str) -> bool:
    """`weights.view(b, t, k)`, of what the softmax gives."""
    held = call.file.names_given(call.node)
    for later in call.file.calls("view", "reshape"):
        sizes = [ast.unparse(size) for size in later.node.args]
        ours = later.owner is call.node or any(is_name(later.owner, name) for name in held)
        if later.function is call.function and ours and len(sizes) == 3 and sizes[:2] == [first, second]:
            return later.node.lineno >= call.node.lineno
    return False
