"""Learning rates that are set for the first of several parameter groups alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SETS = pattern(r"(\S*)\[[\"']lr[\"']\]\s*(?:[-+*/]|\*\*)?=(?!=)")
_OTHER_WAYS = pattern(r"\blr_scheduler\b|add_param_group|get_\w*schedule|param_groups\s*[.=]")


class LoneGroup(NamedTuple):
    """Where the rate of the first group is set, and the optimizer, with its number of groups."""

    file: File
    target: ast.Subscript
    context: Context
    made: Origin
    groups: int


def lone_groups(sites: Sites) -> Iterator[LoneGroup]:
    """`optimizer.param_groups[0]["lr"] = lr`, where there are two groups and nothing sets the rate of the other."""
    texts = [file.text for file in sites.mentioning(["lr", "param_groups"])]
    written = [found[1] for text in texts for found in _SETS.finditer(text)]
    if not written or not all(owner.endswith(".param_groups[0]") for owner in written):
        return
    if any(_OTHER_WAYS.search(text) for text in texts):
        return
    for file in sites.mentioning(["param_groups[0]"]):
        for target, owner, context in _first_groups(file):
            made = origins(file, owner, context)
            counts = [_groups(each) for each in made]
            if counts and min(counts) > 1:
                yield LoneGroup(file, target, context, made[0], counts[0])


def _first_groups(file: File) -> Iterator[tuple[ast.Subscript, ast.expr, Context]]:
    """What is assigned to a learning rate of a first group, and whose that is."""
    for node in walk(file.module.source.tree):
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            match target:
                case ast.Subscript(
                    value=ast.Subscript(
                        value=ast.Attribute(value=owner, attr="param_groups"), slice=ast.Constant(value=0)
                    ),
                    slice=ast.Constant(value="lr"),
                ):
                    around = (each for each in reversed(file.functions) if target in each.nodes)
                    function = next(around, None)
                    yield target, owner, function.inner if function is not None else file.walk.module


def _groups(made: Origin) -> int:
    """How many groups an optimizer is made with; 0 where that is not written out.

    And where each of the others has a rate of its own, which may be meant to stay.
    """
    if not isinstance(made.node, ast.Call) or not canonical(made.name).startswith("torch.optim."):
        return 0
    given = Call(made.file, made.node, made.context).argument("params", 0)
    if given is None or given is OPEN:
        return 0
    listed, _ = made.file.value(given, made.context)
    groups = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
    if not all(isinstance(each, ast.Dict) and None not in each.keys for each in groups):
        return 0
    return len(groups) if any("'lr'" not in map(ast.unparse, _keys(each)) for each in groups[1:]) else 0


def _keys(group: ast.expr) -> list[ast.expr]:
    return [key for key in group.keys if key is not None] if isinstance(group, ast.Dict) else []
