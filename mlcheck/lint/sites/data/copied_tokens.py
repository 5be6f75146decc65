"""Labels that are the tokens themselves, and the call of a tokenizer that has padded them."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context

_COPIES = 4
_SAME = ("clone", "copy", "to", "cuda", "squeeze", "detach", "flatten")


def given_as_labels(file: File) -> list[tuple[ast.expr, Context]]:
    """What a model is given as `labels=...`, and what an entry `"labels"` is set to, with its context."""
    found = [
        (word.value, context)
        for calls in file.walk.calls.values()
        for call, context in calls
        for word in call.keywords
        if word.arg == "labels"
    ]
    for function in (each for each in file.functions if "labels" in each.text):
        found += [
            (node.value, function.inner)
            for node in function.all(ast.Assign)
            if ast.unparse(node.targets[0]).endswith("['labels']")
        ]
        found += [
            (value, function.inner)
            for node in function.all(ast.Dict)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == "labels" and "'input_ids'" in ast.unparse(node)
        ]
    return found


def tokenized_with_padding(file: File, labels: ast.expr, context: Context) -> ast.Call | None:
    """The call of a tokenizer with padding whose `input_ids`, as they are, become the labels."""
    node: ast.expr = labels
    for _ in range(_COPIES):
        file, node, context = _behind(file, node, context)
        if isinstance(node, ast.ListComp) and _copies_rows(node):
            node = node.generators[0].iter
    of_key = isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "'input_ids'"
    if not isinstance(node, ast.Subscript | ast.Attribute) or not (of_key or getattr(node, "attr", "") == "input_ids"):
        return None
    _, made, _ = _behind(file, node.value, context)
    if not isinstance(made, ast.Call) or "tok" not in ast.unparse(made.func).lower():
        return None
    padding = next((word.value for word in made.keywords if word.arg in ("padding", "pad_to_max_length")), None)
    padded = isinstance(padding, ast.Constant) and padding.value in (True, "longest", "max_length")
    return made if padded else None


def _behind(file: File, node: ast.expr, context: Context) -> tuple[File, ast.expr, Context]:
    """`ids` of `ids[0].clone()`, and what that name, or a function that returns it, stands for."""
    node = before_methods(node, _SAME)
    while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
        node = before_methods(node.value, _SAME)
    found = origins(file, node, context)
    return (
        (found[0].file, before_methods(found[0].node, _SAME), found[0].context)
        if len(found) == 1
        else (file, node, context)
    )


def _copies_rows(node: ast.ListComp) -> bool:
    """`[list(ids) for ids in rows]`, `[ids[:] for ids in rows]`."""
    name = ast.unparse(node.generators[0].target)
    plain = len(node.generators) == 1 and not node.generators[0].ifs
    return plain and ast.unparse(node.elt) in (name, f"list({name})", f"{name}[:]", f"{name}.copy()")
