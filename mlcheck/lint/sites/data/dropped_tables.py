"""Tables and data sets whose methods return a new one, called as if they changed the old: `df.dropna()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_OF_DATASETS = frozenset(
    [
        *("map", "filter", "shuffle", "select", "sort", "shard", "rename_column", "rename_columns", "remove_columns"),
        *("select_columns", "cast", "cast_column", "add_column", "with_format", "with_transform", "flatten"),
    ]
)
_OF_PANDAS = frozenset(
    [
        *("dropna", "fillna", "drop", "drop_duplicates", "reset_index", "set_index", "sort_values", "sort_index"),
        *("rename", "replace", "sample", "astype", "clip", "interpolate", "ffill", "bfill"),
    ]
)
_LOADS = ("datasets.load_dataset", "datasets.load_from_disk", "datasets.concatenate_datasets")
_MAKES = ("datasets.Dataset.from_", "datasets.DatasetDict")
_TABLES = ("pandas.read_", "pandas.DataFrame", "pandas.concat", "pandas.merge")
_DEPTH = 6


def dropped_tables(sites: Sites) -> Iterator[tuple[Call, ast.Name]]:
    """The calls whose result nobody takes, with the variable that is read afterwards as it was."""
    wanted = sorted(_OF_DATASETS | _OF_PANDAS)
    trains = any(True for _ in sites.mentioning(["torch", "transformers"]))
    for file in sites.mentioning(["pandas", "datasets"]) if trains else ():
        for call in file.calls(*wanted) if not file.path.endswith(".ipynb") else ():
            owner, method = call.owner, last_name(call.node.func)
            if call.node not in file.statements or not isinstance(owner, ast.Name):
                continue
            if any(word.arg in ("inplace", None) for word in call.node.keywords) or not _is_read(call, owner):
                continue
            own = {"datasets": _OF_DATASETS, "pandas": _OF_PANDAS}.get(_kind(file, owner, call.context), frozenset())
            if method in own and not _works_by_itself(call):
                yield call, owner


def _kind(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> str:
    """The library that the table is of; "" where it may be anything else."""
    found = origins(file, node, context) if depth else []
    kinds = set[str]()
    for each in found:
        made = each.node
        if each.name.startswith((*_LOADS, *_MAKES)):
            kinds.add("datasets")
        elif each.name.startswith(_TABLES):
            kinds.add("pandas")
        elif isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and not each.name:
            own = made.func.attr in _OF_DATASETS | _OF_PANDAS
            kinds.add(_kind(each.file, made.func.value, each.context, depth - 1) if own else "")
        elif isinstance(made, ast.Subscript) and isinstance(made.slice, ast.Constant):
            inner = _kind(each.file, made.value, each.context, depth - 1)
            kinds.add(inner if inner == "datasets" else "")
        else:
            kinds.add("")
    return kinds.pop() if len(kinds) == 1 else ""


def _is_read(call: Call, variable: ast.Name) -> bool:
    """Whether the variable is read beneath, or in another turn of a loop around."""
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    end = call.node.end_lineno or call.node.lineno
    return any(is_name(n, variable.id) and isinstance(n.ctx, ast.Load) and n.lineno > end for n in nodes)


def _works_by_itself(call: Call) -> bool:
    """`data.map(count)`, where `count` does something else than to return a new sample."""
    if last_name(call.node.func) not in ("map", "filter"):
        return False
    given = call.argument("function", 0)
    named = call.file.resolve(given, call.context) if given is not None else None
    if isinstance(named, Function):
        changes = (node for node in named.nodes if isinstance(node, ast.Global | ast.Nonlocal | ast.AugAssign))
        return not list(returns(named)) or any(True for _ in changes)
    return not isinstance(given, ast.Lambda)
