"""Parameters that are sorted into two groups which then get the same options: sorting them changes nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from mlcheck.lint.sites import Context, File, Sites

_PER_GROUP = ("LambdaLR", "MultiplicativeLR", "OneCycleLR", "CyclicLR", "ReduceLROnPlateau")
_SET_LATER = re.compile(r"param_groups\[|\[[\"']weight_decay[\"']\] *=")
_OPPOSITE = {ast.In: ast.NotIn, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq}

Sorted = tuple[ast.Dict, str]


def alike(file: File, groups: Sequence[ast.expr], context: Context) -> tuple[Sorted, Sorted] | None:
    """Two groups with a weight decay each, equal in all options, and the opposite conditions they are sorted by."""
    first, second = map(_options, groups) if len(groups) == 2 else (None, None)
    if not first or not second or "weight_decay" not in first or first.keys() != second.keys():
        return None
    if any(ast.dump(first[name]) != ast.dump(second[name]) for name in first.keys() - {"params"}):
        return None
    one, other = (_only_clause(file.value(options["params"], context)[0]) for options in (first, second))
    if one is None or other is None or _source(one) != _source(other) or not _is_opposite(one.ifs[0], other.ifs[0]):
        return None
    assert isinstance(groups[0], ast.Dict)
    assert isinstance(groups[1], ast.Dict)
    return (groups[0], ast.unparse(one.ifs[0])), (groups[1], ast.unparse(other.ifs[0]))


def told_apart_later(sites: Sites) -> bool:
    """Whether options of single groups are set elsewhere: by their number, or by a schedule for each."""
    if any(_SET_LATER.search(file.text) for file in sites.files.values()):
        return True
    schedules = sites.calls(*(f"torch.optim.lr_scheduler.{name}" for name in _PER_GROUP))
    given = [part for call in schedules for part in (*call.node.args, *(word.value for word in call.node.keywords))]
    return any(isinstance(part, ast.List | ast.Tuple | ast.ListComp) for part in given)


def _options(group: ast.expr) -> dict[str, ast.expr]:
    """What a group is given, by name; nothing where not all names are plain to see, or the parameters missing."""
    if not isinstance(group, ast.Dict):
        return {}
    found = {
        key.value: value
        for key, value in zip(group.keys, group.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    return found if len(found) == len(group.keys) and "params" in found else {}


def _only_clause(made: ast.expr) -> ast.comprehension | None:
    """The `for ... if` of `[p for n, p in model.named_parameters() if ...]`, where it has one condition."""
    if isinstance(made, ast.ListComp | ast.GeneratorExp) and len(made.generators) == 1:
        return made.generators[0] if len(made.generators[0].ifs) == 1 else None
    return None


def _source(clause: ast.comprehension) -> tuple[str, str]:
    return ast.dump(clause.target), ast.dump(clause.iter)


def _is_opposite(one: ast.expr, other: ast.expr) -> bool:
    for test, negated in ((one, other), (other, one)):
        if isinstance(negated, ast.UnaryOp) and isinstance(negated.op, ast.Not):
            return ast.dump(negated.operand) == ast.dump(test)
        match test, negated:
            case ast.Compare(left=a, ops=[op], comparators=[b]), ast.Compare(left=c, ops=[reverse], comparators=[d]):
                if _OPPOSITE.get(type(op)) is type(reverse):
                    return (ast.dump(a), ast.dump(b)) == (ast.dump(c), ast.dump(d))
    return False
