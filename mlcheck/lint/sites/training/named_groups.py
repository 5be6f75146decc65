"""Parameters that are sorted into groups by their names, and those that belong to none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters, is_module
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.optimizers import optimizers

_SINGLE = frozenset(f"torch.nn.{kind}" for kind in ("Linear", "Conv1d", "Conv2d", "Conv3d", "Embedding", "LayerNorm"))


class Asked(NamedTuple):
    """`word in name`, or `name.startswith(word)`."""

    word: str
    begins: bool


def left_out_by_name(sites: Sites) -> Iterator[Finding]:
    """`[p for n, p in model.named_parameters() if n.startswith("encoder")]` and the like, and a layer of no group."""
    for made in sites.once(optimizers):
        groups = [_group(made, part) for part in _parts(made)]
        models = {ast.unparse(group[0]) for group in groups if group is not None}
        if len(groups) < 2 or None in groups or len(models) != 1 or "add_param_group" in made.file.text:
            continue
        found = [group for group in groups if group is not None]
        yield from _left_out(made.file, found[0][0], made.context, [asked for _, asked in found], made.node)
    yield from _left_by_loops(sites)


def _left_by_loops(sites: Sites) -> Iterator[Finding]:
    """`if "encoder" in name: slow.append(p)`, `elif "head" in name: fast.append(p)`, and no `else`."""
    for file in sites.mentioning([".named_parameters()"]):
        frozen = "requires_grad = False" in file.text or "requires_grad_(False)" in file.text
        for loop, context in file.walk.loops if "params" in file.text and not frozen else ():
            match loop:
                case ast.For(
                    target=ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=value)]),
                    iter=ast.Call(func=ast.Attribute(value=model, attr="named_parameters"), args=[]),
                    body=[*before, ast.If() as chosen],
                ) if all(_skips_frozen(line) for line in before):
                    asked = _chain(chosen, name, value)
                    if len(asked) > 1:
                        yield from _left_out(file, model, context, asked, chosen)


def _skips_frozen(line: ast.stmt) -> bool:
    """`if not p.requires_grad: continue`."""
    return (
        isinstance(line, ast.If)
        and "requires_grad" in ast.unparse(line.test)
        and isinstance(line.body[0], ast.Continue)
    )


def _chain(chosen: ast.If, name: str, value: str) -> list[Asked]:
    """What the arms ask of the name, where each does nothing but append the parameter; none where the last asks not."""
    found = []
    line: ast.stmt | None = chosen
    while isinstance(line, ast.If):
        asked = _asked(line.test, name)
        if asked is None or len(line.body) != 1 or not ast.unparse(line.body[0]).endswith(f".append({value})"):
            return []
        found.append(asked)
        if len(line.orelse) > 1:
            return []
        line = line.orelse[0] if line.orelse else None
    return found if line is None else []


def _left_out(file: File, model: ast.expr, context: Context, asked: list[Asked], node: ast.AST) -> Iterator[Finding]:
    layers = _layers(file, model, context)
    for name, rest in layers:
        if not any(_may_be_asked(name, rest, each, [other for other, _ in layers]) for each in asked):
            yield Finding(
                f"`{name}` belongs to none of these groups: its parameters keep their first values",
                file.place(node, context).location,
                help="let the last group take all names that the others leave",
            )
            break


def _may_be_asked(name: str, rest: str, asked: Asked, layers: list[str]) -> bool:
    """Whether a group may take the parameters of a layer: `rest` is what one of them is called in it, "" if not known.

    A word that another layer is called by is not looked for inside of this one.
    """
    if asked.begins:
        return f"{name}.{rest}".startswith(asked.word) or (not rest and asked.word.startswith(f"{name}."))
    if asked.word in f"{name}.{rest}":
        return True
    return not rest and not any(asked.word.strip(".") in other for other in layers)


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


def _group(made: Call, part: ast.expr) -> tuple[ast.expr, Asked] | None:
    """The model, and what the names are asked; None of all else."""
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
    asked = _asked(test, name)
    return (model, asked) if asked is not None else None


def _asked(test: ast.expr, name: str) -> Asked | None:
    match test:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=asked), attr="startswith"), args=[ast.Constant(value=str(word))]
        ):
            return Asked(word, True) if asked == name else None
        case ast.Compare(left=ast.Constant(value=str(word)), ops=[ast.In()], comparators=[ast.Name(id=asked)]):
            return Asked(word, False) if asked == name else None
    return None


def _layers(file: File, model: ast.expr, context: Context) -> list[tuple[str, str]]:
    """The attributes with parameters of the one class that the model is certainly made of, called in its `forward`.

    Each with what a parameter of it is called, where it is one layer.
    """
    found = origins(file, model, context)
    named = {each.file.resolve(each.node.func, each.context) for each in found if isinstance(each.node, ast.Call)}
    cls = named.pop() if len(named) == 1 and len(found) == 1 else None
    forward = cls.find("forward") if isinstance(cls, Class) and is_module(cls) else None
    if forward is None or not isinstance(cls, Class) or len(cls.line) > 1:
        return []
    called = {ast.unparse(node.func) for node in forward.nodes if isinstance(node, ast.Call)}
    return [
        (name, "weight" if cls.file.called(sets[0][1].value, sets[0][1].context) in _SINGLE else "")
        for name, sets in cls.attributes.items()
        if len(sets) == 1 and sets[0][1].value is not None and f"self.{name}" in called
        if holds_parameters(cls.file, sets[0][1].value, sets[0][1].context)
    ]
