"""The parts of two splits of one folder, each drawn by itself: what one trains on, the other holds out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name, reads_of
from mlcheck.lint.sites.data.drawn_splits import RANDOM_SPLIT
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import sole
from mlcheck.lint.sites.project import Sites

_SEEDS = ("manual_seed", "seed_everything", "fork_rng", "set_seed", "set_rng_state")


class TwoDraws(NamedTuple):
    first: Call
    second: Call


def parts_of_two_draws(sites: Sites) -> Iterator[TwoDraws]:
    """`train, _ = random_split(augmented, sizes)` and `_, val = random_split(plain, sizes)`, and nothing seeds them."""
    drawn = [call for call in sites.calls(RANDOM_SPLIT) if call.function is not None and not call.file.is_test]
    for first, second in combinations(drawn, 2):
        function = first.function
        if function is None or second.function is not function or any(word in function.text for word in _SEEDS):
            continue
        if any(call.argument("generator", 2) is not None or call.loops for call in (first, second)):
            continue
        taken = [_read(first), _read(second)]
        apart = len(taken[0]) == len(taken[1]) == 1 and taken[0] != taken[1]
        if apart and _lengths(first) == _lengths(second) and _are_of_one_folder(first, second):
            if not first.context.excludes(second.context):
                yield TwoDraws(*sorted((first, second), key=lambda call: call.node.lineno))


def _lengths(call: Call) -> str:
    given = call.argument("lengths", 1)
    return ast.unparse(given) if isinstance(given, ast.expr) else ""


def _read(call: Call) -> list[int]:
    """The places of the parts that somebody reads."""
    function = call.function
    for line in function.all(ast.Assign) if function is not None else ():
        target = line.targets[0]
        if line.value is call.node and isinstance(target, ast.Tuple) and function is not None:
            names = [part if isinstance(part, ast.Name) else None for part in target.elts]
            read = [name is None or bool(reads_of(function.nodes, name.id)) for name in names]
            return [place for place, each in enumerate(read) if each]
        match line.value:
            case ast.Subscript(value=made, slice=ast.Constant(value=int() as place)) if made is call.node:
                return [place]
    return []


def _are_of_one_folder(first: Call, second: Call) -> bool:
    """Whether two data sets of one class are split, which read the same: they begin with the same argument."""
    made = [sole(call.file, call.node.args[0], call.context) for call in (first, second) if call.node.args]
    calls = [each.node for each in made if each is not None and isinstance(each.node, ast.Call) and each.node.args]
    if len(calls) != 2 or calls[0] is calls[1]:
        return len(calls) == 2
    classes = {last_name(call.func) for call in calls}
    return len(classes) == 1 and len({ast.unparse(call.args[0]) for call in calls}) == 1
