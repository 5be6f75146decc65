"""Weights that are read from a file by a call that hands them to nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.project import Sites

_LIGHTNING = "LightningModule"


def dropped(sites: Sites) -> Iterator[Finding]:
    for file in sites.mentioning([".state_dict("]) if any(True for _ in sites.mentioning(["torch.load"])) else ():
        for call in file.calls("state_dict"):
            yield from _asked_for(call)
    for file in sites.mentioning([".load_from_checkpoint("]):
        for call in file.calls("load_from_checkpoint"):
            yield from _made_for_nobody(call)


def _asked_for(call: Call) -> Iterator[Finding]:
    """`model.state_dict(torch.load(path))`, which writes the model's weights over what was read."""
    given, func = call.argument("destination", 0), call.node.func
    if not isinstance(given, ast.expr) or not isinstance(func, ast.Attribute):
        return
    while isinstance(given, ast.Subscript):
        given = given.value
    read, where = source(call.file, given, call.context)
    own = call.file.resolve(func, call.context)
    if (own is None or isinstance(own, str)) and call.file.called(read, where) == "torch.load":
        model = ast.unparse(func.value)
        yield Finding(
            f"`state_dict(...)` asks `{model}` for its weights and loads nothing: it keeps those it had",
            call.place.location,
            help=f"write `{model}.load_state_dict(...)`",
        )


def _made_for_nobody(call: Call) -> Iterator[Finding]:
    """`model.load_from_checkpoint(path)` as a statement: Lightning makes a new model of the file."""
    func = call.node.func
    if call.node not in call.file.statements or not isinstance(func, ast.Attribute):
        return
    cls, where = _class_of(call, func.value)
    if cls is None or cls.find("load_from_checkpoint") or not any(name.endswith(_LIGHTNING) for name in cls.libraries):
        return
    owner = ast.unparse(func.value)
    if where == "instance":
        yield Finding(
            f"`load_from_checkpoint` makes a new model, which this line drops: `{owner}` keeps the weights it had",
            call.place.location,
            help=f"write `{owner} = {cls.name}.load_from_checkpoint(...)`",
        )
    elif not any(outer.kind in ("try", "with") for outer in call.context.outwards()):
        yield Finding(
            "`load_from_checkpoint` makes a new model, which this line drops: the weights reach nobody",
            call.place.location,
            help=f"write `model = {owner}.load_from_checkpoint(...)`",
        )


def _class_of(call: Call, owner: ast.expr) -> tuple[Class | None, str]:
    """The class itself, or that of the object it is asked of."""
    named = call.file.resolve(owner, call.context)
    if isinstance(named, Class):
        return named, "class"
    made, context = source(call.file, owner, call.context)
    held = call.file.resolve(made.func, context) if isinstance(made, ast.Call) else None
    return (held if isinstance(held, Class) else None), "instance"
