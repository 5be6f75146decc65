"""Loops over several things at once: `zip(...)`, as it stands, under a name, or as a function is given it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.latest import reaching
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, given
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context


class Together(NamedTuple):
    """The call of `zip`, and a loop that goes over it."""

    call: Call
    loop: ast.For
    file: File
    context: Context


def gone_over_together(sites: Sites) -> Iterator[Together]:
    if not any(sites.mentioning(["zip("])):
        return
    for file in sites.mentioning(["for "]):
        for loop, context in file.walk.loops if "torch" in file.text else ():
            if isinstance(loop, ast.For):
                for made in _behind(Origin(file, iteration_of(loop).over, context)):
                    if isinstance(made.node, ast.Call) and is_name(made.node.func, "zip"):
                        yield Together(Call(made.file, made.node, made.context), loop, file, context)


def _behind(over: Origin) -> Iterator[Origin]:
    """What a loop goes over, through one name; of a parameter, all that the function is given for it."""
    if not isinstance(over.node, ast.Name):
        yield over
        return
    for bound in reaching(over.file, over.node, over.context):
        function = over.file.function_around(bound.context)
        if bound.kind == "value" and isinstance(bound.value, ast.expr):
            yield Origin(over.file, bound.value, bound.context)
        elif bound.kind == "param" and function is not None:
            yield from given(over.file.sites, function, over.node.id)
