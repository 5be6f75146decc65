"""Parameters that are to be frozen by their names, where the model has none of such a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.asked_names import Asked, asked_of, is_written_here, may_be_called, model_of

_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel")


def named_nowhere(sites: Sites) -> Iterator[tuple[Place, Asked, str]]:
    """`if name.startswith("encoder."): p.requires_grad = False` of a model without an `encoder`.

    The test, what it asks of the name, and the class of the model, or of the wrapper around it.
    """
    for file in sites.mentioning(["named_parameters()"]):
        for context in _settings(file):
            guard, loop = _around(context)
            if guard is None or loop is None or not isinstance(loop.iter, ast.Call):
                continue
            name = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2 else None
            asked = asked_of(file, guard.test, name.id, context) if isinstance(name, ast.Name) else []
            owner = loop.iter.func.value if isinstance(loop.iter.func, ast.Attribute) else None
            made = origins(file, owner, context) if asked and owner is not None else []
            holders = [_without(origin, asked) for origin in made]
            if made and all(holders):
                yield file.place(guard.test, context), asked[0], holders[0]


def _settings(file: File) -> Iterator[Context]:
    """Where `p.requires_grad = ...` and `p.requires_grad_(...)` stand."""
    yield from (each.context for each in file.walk.attributes if each.target.attr == "requires_grad")
    yield from (call.context for call in file.calls("requires_grad_"))


def _around(context: Context) -> tuple[ast.If | None, ast.For | None]:
    """`if` and loop around, where that is a loop over names and parameters."""
    guard = context.node
    loop = next((outer.node for outer in context.outwards() if outer.kind == "loop"), None)
    if not isinstance(guard, ast.If) or not isinstance(loop, ast.For):
        return None, None
    if guard.orelse or context.arm != "body" or not ast.unparse(loop.iter).endswith(".named_parameters()"):
        return None, None
    return guard, loop


def _without(model: Origin, asked: list[Asked]) -> str:
    """The class of the model, where none of its parameters can be called so; "" where one may."""
    named = model.file.resolve(model.node.func, model.context) if isinstance(model.node, ast.Call) else None
    if named in _WRAPPERS:
        begun = all(each.way == "startswith" and not each.word.startswith("mod") for each in asked)
        return str(named).rpartition(".")[2] if begun else ""
    cls = model_of(model)
    if cls is None or not (all(each.way == "startswith" for each in asked) or is_written_here(cls)):
        return ""
    return cls.name if not any(may_be_called(model.file.sites, each) for each in asked) else ""
