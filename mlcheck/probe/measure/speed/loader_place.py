"""The line that makes the loader, where the entry point's file has but one that fits."""

from __future__ import annotations

import ast

from mlcheck.core.finding import Location
from mlcheck.core.source_text import read_source
from mlcheck.probe.measure.place import as_given


def loader_place(entry: Location, workers: int) -> Location:
    """A `DataLoader(...)` with that `num_workers`; of several, or of none, the entry point itself."""
    try:
        tree = ast.parse(read_source(entry.path))
    except (OSError, SyntaxError, ValueError):
        return entry
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "DataLoader"]
    fitting = [call for call in calls if workers in _numbers(call)] or [call for call in calls if _is_open(call)]
    if len(fitting) != 1:
        return entry
    (call,) = fitting
    return Location(as_given(entry.path), call.lineno)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _numbers(call: ast.Call) -> list[object]:
    return [k.value.value for k in call.keywords if k.arg == "num_workers" and isinstance(k.value, ast.Constant)]


def _is_open(call: ast.Call) -> bool:
    """Whether its workers are given by a name, whose value the text does not tell."""
    return any(k.arg in ("num_workers", None) and not isinstance(k.value, ast.Constant) for k in call.keywords)
