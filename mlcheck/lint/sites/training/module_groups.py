"""Optimizers that are given the parts of a model one by one, all but a layer between them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import LEARNING, module_classes
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_THROUGH = ("filter", "list", "chain")
_PARTS = 2


class LeftOut(NamedTuple):
    """The layer, as the model calls it, where it is made, and the optimizer that has all parts but that."""

    name: str
    layer: Place
    made: Place


def layers_left_out(sites: Sites) -> Iterator[LeftOut]:
    """`SGD([{"params": model.body.parameters()}, {"params": model.head.parameters()}])`, and `model.down` is left."""
    for made in sites.once(optimizers):
        parts = _parts(made)
        if len(parts) < _PARTS:
            continue
        owners = [cls for cls in sites.once(module_classes) if parts <= cls.attributes.keys()]
        left = [name for name in owners[0].attributes if name not in parts] if len(owners) == 1 else []
        layers = [name for name in left if _is_layer(owners[0], name)]
        if len(layers) == 1 and _is_trained(sites, owners[0], layers[0], parts):
            where, bound = owners[0].attribute(layers[0])[0]
            assert bound.value is not None
            yield LeftOut(layers[0], where.file.place(bound.value, bound.context), made.place)


def _parts(made: Call) -> set[str]:
    """The names of the parts of one model that the optimizer is given; none if it is given anything else."""
    given = made.argument("params", 0)
    groups = _groups(made, given) if isinstance(given, ast.expr) else None
    found = [_part(made, group) for group in groups or ()]
    models = {model for model, _ in found}
    return {part for _, part in found} if len(models) == 1 and all(models) else set()


def _groups(made: Call, given: ast.expr) -> list[ast.expr] | None:
    """All that is put into the list of groups, wherever in the function; None if more may be."""
    if isinstance(given, ast.List):
        return given.elts
    if not isinstance(given, ast.Name) or made.function is None or given.id in made.function.parameters:
        return None
    found: list[ast.expr] = []
    for node in made.function.nodes:
        match node:
            case ast.Assign(targets=[target], value=ast.List(elts=groups)) if is_name(target, given.id):
                found += groups
            case ast.AugAssign(target=target, op=ast.Add(), value=ast.List(elts=groups)) if is_name(target, given.id):
                found += groups
            case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[group]) if is_name(owner, given.id):
                found.append(group)
            case ast.Call(func=ast.Attribute(value=owner, attr="extend")) if is_name(owner, given.id):
                return None
            case ast.Assign(targets=targets) if any(is_name(target, given.id) for target in targets):
                return None
            case ast.AugAssign(target=target) if is_name(target, given.id):
                return None
    return found


def _part(made: Call, group: ast.expr) -> tuple[str, str]:
    """`model` and `body` of `{"params": filter(..., model.body.parameters()), "lr": 0.1}`."""
    if isinstance(group, ast.Dict):
        params = [value for key, value in zip(group.keys, group.values, strict=True) if _is_params(key)]
        group = params[0] if len(params) == 1 else group
    for _ in range(3):
        group = source(made.file, group, made.context)[0]
        if isinstance(group, ast.Call) and last_name(group.func) in _THROUGH and group.args:
            group = group.args[-1]
        elif isinstance(group, ast.ListComp | ast.GeneratorExp):
            group = group.generators[0].iter
    match group:
        case ast.Call(func=ast.Attribute(value=owner, attr="parameters"), args=[]):
            path = ast.unparse(owner).replace(".module.", ".").split(".")
            return (path[0], path[1]) if len(path) > 1 and all(name.isidentifier() for name in path) else ("", "")
    return "", ""


def _is_params(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "params"


def _is_layer(cls: Class, name: str) -> bool:
    sets = cls.attributes[name]
    made = sets[0][1].value if len(sets) == 1 else None
    return made is not None and cls.file.called(made, sets[0][1].context) in LEARNING


def _is_trained(sites: Sites, cls: Class, name: str, parts: set[str]) -> bool:
    """Whether the model calls it behind a part that is trained, and nobody but the model ever speaks of it."""
    called = re.compile(rf"\bself\.{name}\(")
    lines = {part: cls.attributes[part][0][1].node.lineno for part in (name, *parts)}
    if not called.search(cls.text) or lines[name] < min(lines[part] for part in parts):
        return False
    elsewhere = any(re.search(rf"(?<!\bself)\.{name}\b", file.text) for file in sites.mentioning([f".{name}"]))
    plainly = len(called.findall(cls.text)) + 1 == len(re.findall(rf"\bself\.{name}\b", cls.text))
    return plainly and not elsewhere and "requires_grad" not in cls.text
