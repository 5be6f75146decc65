"""Parameters that are sorted into groups by their names, and those that belong to none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters, is_module
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers


def left_out_by_name(sites: Sites) -> Iterator[Finding]:
    """`[p for n, p in model.named_parameters() if n.startswith("encoder")]` and the like, and a layer of no group."""
    for made in sites.once(optimizers):
        groups = [_group(made, part) for part in _parts(made)]
        models = {ast.unparse(group[0]) for group in groups if group is not None}
        if len(groups) < 2 or None in groups or len(models) != 1 or "add_param_group" in made.file.text:
            continue
        found = [group for group in groups if group is not None]
        for name in _layers(made, found[0][0]):
            if not any(name.startswith(word) if begins else word in name for _, word, begins in found):
                yield Finding(
                    f"`{name}` belongs to none of these groups: its parameters keep their first values",
                    made.place.location,
                    help="let the last group take all names that the others leave",
                )
                break


def _parts(made: Call) -> list[ast.expr]:
    """What the groups of an optimizer are made of."""
    given = made.argument("params", 0)
    given = source(made.file, given, made.context)[0] if given is not None else None
    if not isinstance(given, ast.List):
        return []
    values = []
    for group in given.elts:
        group = source(made.file, group, made.context)[0]
        keys = group.keys if isinstance(group, ast.Dict) else []
        names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
        if not isinstance(group, ast.Dict) or "params" not in names:
            return []
        values.append(group.values[names.index("params")])
    return values


def _group(made: Call, part: ast.expr) -> tuple[ast.expr, str, bool] | None:
    """The model, the word that the names are asked for, and whether they begin with it; None of all else."""
    part = source(made.file, part, made.context)[0]
    match part:
        case ast.ListComp(
            elt=ast.Name(id=kept),
            generators=[
                ast.comprehension(
                    target=ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=value)]),
                    iter=ast.Call(func=ast.Attribute(value=model, attr="named_parameters"), args=[]),
                    ifs=[test],
                )
            ],
        ) if kept == value:
            pass
        case _:
            return None
    match test:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=asked), attr="startswith"), args=[ast.Constant(value=word)]):
            return (model, word, True) if asked == name and isinstance(word, str) else None
        case ast.Compare(left=ast.Constant(value=word), ops=[ast.In()], comparators=[ast.Name(id=asked)]):
            return (model, word, False) if asked == name and isinstance(word, str) else None
    return None


def _layers(made: Call, model: ast.expr) -> list[str]:
    """The attributes with parameters of the one class that the model is certainly made of, called in its `forward`."""
    found = origins(made.file, model, made.context)
    named = {each.file.resolve(each.node.func, each.context) for each in found if isinstance(each.node, ast.Call)}
    cls = named.pop() if len(named) == 1 and len(found) == 1 else None
    forward = cls.find("forward") if isinstance(cls, Class) and is_module(cls) else None
    if forward is None or not isinstance(cls, Class) or len(cls.line) > 1:
        return []
    called = {ast.unparse(node.func) for node in forward.nodes if isinstance(node, ast.Call)}
    return [
        name
        for name, sets in cls.attributes.items()
        if len(sets) == 1 and sets[0][1].value is not None and f"self.{name}" in called
        if holds_parameters(cls.file, sets[0][1].value, sets[0][1].context)
    ]
