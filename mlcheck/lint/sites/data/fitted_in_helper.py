"""A function that fits a scaler of its own to what it is given, called for training data and for held-out data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.data.learning import COUNTERS, of_origin
from mlcheck.lint.sites.data.own_scale import OwnScale
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import origin, reaching
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_SPLIT = "sklearn.model_selection.train_test_split"
_ASKS = ("if", "try")


def fitted_in_helpers(sites: Sites) -> Iterator[OwnScale]:
    """`prepare(x_train)` and `prepare(x_test)`, where `prepare` begins with `StandardScaler().fit_transform(x)`."""
    for file in sites.mentioning([".fit_transform("]):
        for function in file.functions if "sklearn" in file.text else ():
            for name in {name for call in file.calls("fit_transform") if (name := _fits_anew(function, call))}:
                yield from _on_both_parts(sites, function, name)


def _on_both_parts(sites: Sites, function: Function, name: str) -> Iterator[OwnScale]:
    parts: dict[str, list[tuple[str, Call]]] = {}
    position = list(function.parameters).index(name) - bool(function.receiver)
    calls = [(call, given) for call in callers(sites, function) if (given := call.argument(name, position)) is not OPEN]
    cut = {ast.unparse(given) for _, given in calls if isinstance(given, ast.Subscript)}
    for call, given in calls:
        if isinstance(given, ast.Subscript):
            parts.setdefault(_side(given, cut), []).append((ast.unparse(given), call))
        elif isinstance(given, ast.Name | ast.Attribute):
            parts.setdefault(_part(call.file, given, call), []).append((ast.unparse(given), call))
    for held_out, call in (*parts.get("val", ()), *parts.get("test", ())):
        training = next((each for _, each in parts.get("train", ()) if each.function is call.function), None)
        if training is not None:
            yield OwnScale(held_out, call.place, training.place)


def _fits_anew(function: Function, call: Call) -> str:
    """The parameter that is fitted on as it comes in, in each call, by a scaler that is made there; "" if none is."""
    data, owner = call.node.args[0] if call.node.args else None, call.owner
    data = data.value if isinstance(data, ast.Subscript) and not isinstance(data.slice, ast.Slice) else data  # columns
    if call.function is not function or not isinstance(data, ast.Name) or owner is None:
        return ""
    if data.id not in function.parameters or any(outer.kind in _ASKS for outer in call.context.outwards()):
        return ""
    made = origins(call.file, owner, call.context)
    own = bool(own_attribute(owner, function)) and function.name != "__init__"  # fitted anew in each call as well
    here = [each for each in made if own or each.node in function.nodes]
    kinds = {of_origin(each) for each in here}
    plain = len(here) == len(made) == 1 and not kinds & {"", *COUNTERS}
    return data.id if plain and [each.kind for each in reaching(call.file, data, call.context)] == ["param"] else ""


def _side(given: ast.Subscript, cut: set[str]) -> str:
    """`train` of `rows[:n]` and `test` of `rows[n:]`, where the function is called for both."""
    match given.slice:
        case ast.Slice(lower=None, upper=ast.expr() as end, step=None):
            return "train" if f"{ast.unparse(given.value)}[{ast.unparse(end)}:]" in cut else ""
        case ast.Slice(lower=ast.expr() as end, upper=None, step=None):
            return "test" if f"{ast.unparse(given.value)}[:{ast.unparse(end)}]" in cut else ""
    return ""


def _part(file: File, given: ast.expr, call: Call) -> str:
    """`train`, `val` or `test`, by the name, or by the place among what `train_test_split` returns."""
    if told := split_of_name(last_name(given)):
        return told
    bound = reaching(file, given, call.context) if isinstance(given, ast.Name) else []
    made = origin(file, given, call.context)[0] if len(bound) == 1 else None
    if isinstance(made, ast.Call) and bound[0].kind == "item" and file.called(made, bound[0].context) == _SPLIT:
        return "test" if bound[0].item % 2 else "train"
    return ""
