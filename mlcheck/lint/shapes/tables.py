"""Data frames of pandas: two dimensions, of which a column takes one away."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from mlcheck.core.dataclasses import replace
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import Const, Shape, Symbol, Value

READERS = tuple(f"pandas.read_{kind}" for kind in ("csv", "table", "excel", "parquet", "feather", "pickle"))
_SAME_KIND = frozenset(
    ["copy", "dropna", "fillna", "sample", "reset_index", "sort_values", "astype", "drop_duplicates"]
)


def made(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`pandas.read_csv(...)`."""
    return _table(m, ("size", m.fresh()))


def _table(m: Machine, rows: Hashable) -> Symbol:
    return Symbol(("table", m.fresh()), shape=Shape((rows, ("size", m.fresh()))))


_NO_COLUMNS = frozenset(
    [
        *("T", "at", "iat", "loc", "iloc", "axes", "columns", "dtypes", "flags", "index", "values", "shape", "size"),
        *("attrs", "style", "plot", "sparse", "ndim", "empty"),
    ]
)


def is_table(value: Value) -> bool:
    return isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("table",)


def attribute(owner: Symbol, name: str) -> Symbol | None:
    """`df.values`, an array, and `df.iloc`, which is indexed like one; `series.values` too."""
    return replace(owner, key=(name, owner.key)) if name in ("values", "iloc") else None


def values_of_field(owner: Symbol) -> Symbol | None:
    """`df.price.values`, whatever rows `df` holds: a row alone would have a number there, which has no `values`."""
    match owner.key:
        case ("attr", (("table" | "some rows"), *_) as rows, str(name)) if name not in _NO_COLUMNS:
            return replace(owner, key=("values", owner.key), shape=Shape((("size", rows),)))
    return None


def method(m: Machine, owner: Symbol, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """Another frame; a column that is taken out; or None."""
    if name == "to_numpy" and (field := values_of_field(owner)) is not None:
        return field
    if not is_table(owner) or owner.shape is None or "inplace" in kwargs:
        return None
    if name == "drop" and not args and set(kwargs) == {"columns"}:
        return _table(m, owner.shape.dims[0])
    if name == "drop" and kwargs.get("axis") in (Const(1), Const("columns")):
        return _table(m, owner.shape.dims[0])
    if name in _SAME_KIND:
        return _table(m, ("size", m.fresh()))
    if name == "pop" and args:
        return column(owner, args[0])
    if name in ("to_numpy", "numpy"):
        return replace(owner, key=("values", owner.key))
    return None


def column(owner: Symbol, index: Value) -> Symbol | None:
    """`df["price"]`: one dimension."""
    if owner.shape is not None and isinstance(index, Const) and isinstance(index.value, str):
        return Symbol(("column", owner.key, index.value), owner.name, owner.split, shape=Shape(owner.shape.dims[:1]))
    return None


def rows(owner: Symbol, index: ast.expr, taken: Value) -> Value | None:
    """`df[:100]`, `df[df.year < 2020]`, `df.iloc[100:]`: what is taken is a frame again."""
    whole = is_table(owner)
    if owner.shape is None or not isinstance(taken, Symbol) or not (whole or _is_view_of_table(owner.key)):
        return None
    if isinstance(index, ast.Name) and not whole:
        return Symbol(("some rows", taken.key), owner.name, owner.split)
    if isinstance(index, ast.Slice) or (whole and isinstance(index, ast.Compare)):
        shape = Shape((("size", taken.key), *owner.shape.dims[1:]))
        return Symbol(("table", taken.key), owner.name, owner.split, shape=shape)
    return None


def _is_view_of_table(key: Hashable) -> bool:
    """Of `df.iloc`."""
    return isinstance(key, tuple) and key[0] == "iloc" and isinstance(key[1], tuple) and key[1][:1] == ("table",)


def columns(owner: Symbol, index: ast.expr) -> Shape | None:
    """`df[["price"]]`: as many columns as are written out."""
    if owner.shape is not None and isinstance(index, ast.List) and index.elts:
        if all(isinstance(name, ast.Constant) and isinstance(name.value, str) for name in index.elts):
            return Shape((owner.shape.dims[0], len(index.elts)))
    return None
