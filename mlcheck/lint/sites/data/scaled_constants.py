"""Means and deviations of pixels between 0 and 1, that are divided by 255 before they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SCALES = (255, 256)
_LEAST = 0.05
"""A mean of pixels between 0 and 1 that is smaller than this one is black."""


def scaled_constants(sites: Sites) -> Iterator[Place]:
    """`Normalize([m / 255 for m in (0.485, 0.456, 0.406)], std)`."""
    for file in sites.mentioning(["Normalize("]):
        for call in file.calls("Normalize"):
            for name, position in (("mean", 0), ("std", 1)):
                given = call.argument(name, position)
                if given is not None and _is_scaled(file, *source(file, given, call.context)):
                    yield file.place(given, call.context)
                    break


def _is_scaled(file: File, node: ast.expr, context: Context) -> bool:
    match node:
        case ast.ListComp(
            elt=ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=ast.Constant(value=255 | 256)),
            generators=[ast.comprehension(target=target, iter=over, ifs=[])],
        ) if is_name(target, name):
            values, _ = source(file, over, context)
            numbers = values.elts if isinstance(values, ast.List | ast.Tuple) else []
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            numbers = [
                each.left
                for each in elts
                if isinstance(each, ast.BinOp)
                and isinstance(each.op, ast.Div)
                and isinstance(each.right, ast.Constant)
                and each.right.value in _SCALES
            ]
            numbers = numbers if len(numbers) == len(elts) else []
        case _:
            return False
    known = [each.value for each in numbers if isinstance(each, ast.Constant)]
    small = [isinstance(each, float) and _LEAST < each < 1 for each in known]
    return bool(numbers) and len(known) == len(numbers) and all(small)
