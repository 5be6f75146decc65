"""Data sets made of tensors, their parts, and the batches a loader makes of them; arrays of well-known data sets."""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.core.dataclasses import replace
from mlcheck.lint import containers, shape_rules, tables
from mlcheck.lint.frames import DeadPath
from mlcheck.lint.machine import Machine
from mlcheck.lint.values import Args, Const, Kwargs, Object, Shape, Symbol, Tensor, Tuple, Value

_TENSORS = "torch.utils.data.TensorDataset"
_SUBSET = "torch.utils.data.Subset"


def batch(m: Machine, loader: Object) -> Value | None:
    """What one turn over a DataLoader meets, where its data set is made of tensors."""
    if loader.type != "torch.utils.data.DataLoader":
        return None
    data = loader.args[0] if loader.args else loader.kwargs.get("dataset")
    size = loader.kwargs.get("batch_size", loader.args[1] if len(loader.args) > 1 else Const(1))
    if data is None or "collate_fn" in loader.kwargs or "batch_sampler" in loader.kwargs or size == Const(None):
        return None
    tensors = _tensors(data)
    rows = [_row(tensor) for tensor in tensors] if tensors is not None else _sample(m, data)
    if rows is None:
        return None
    split = containers.split_of_iterable(m, loader)
    found = []
    for number, row in enumerate(rows):
        batched = Shape((("batch", loader.id), *row.dims)) if row is not None else None
        found.append(Symbol(("batch", loader.id, number, m.fresh()), "", split, shape=batched))
    return Tuple(tuple(found))


def _row(tensor: Value) -> Shape | None:
    shape = shape_rules.of(tensor)
    return shape.row if shape is not None else None


def _sample(m: Machine, data: Value) -> list[Shape | None] | None:
    """The shapes of what `data[index]` of a data set of the project returns, where that is a tuple."""
    while isinstance(data, Object) and data.type == _SUBSET and data.args:
        data = data.args[0]
    info = data.cls.find("__getitem__") if isinstance(data, Object) and data.cls is not None else None
    if not isinstance(data, Object) or info is None or info.generator:
        return None
    known: tuple[Shape | None, ...] | None = m.store.get(("sample", data.id))
    if known is not None:
        return list(known)
    mark = m.store.mark()
    try:
        found = m.call_method(data, "__getitem__", [Const(1)], {}, info.node)
    except DeadPath:
        return None
    finally:
        m.store.undo(mark)
    if not isinstance(found, Tuple) or found.open or not found.items:
        return None
    shapes = [shape_rules.of(item) for item in found.items]
    rows = [shape if shape is not None and not shape.open else None for shape in shapes]
    m.store.set(("sample", data.id), tuple(rows))
    return rows


def _tensors(data: Value, depth: int = 4) -> tuple[Value, ...] | None:
    """The tensors behind a TensorDataset or a part of one."""
    if not isinstance(data, Object) or not data.args or depth == 0:
        return None
    if data.type == _TENSORS and "**" not in data.kwargs:
        return data.args
    return _tensors(data.args[0], depth - 1) if data.type == _SUBSET else None


def random_split(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """As many parts of the data set as lengths are given."""
    lengths = containers.items(m, args[1] if len(args) > 1 else kwargs.get("lengths", m.symbol()))
    if not args or lengths is None:
        return m.symbol()
    parts = [Object(_SUBSET, m.fresh(), None, (args[0],), {}, m.place(node)) for _ in lengths]
    return containers.new_list(m, Tuple(tuple(parts)))


def train_test_split(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Of each array two parts, with its rank and the size of its rows."""
    if not args or "**" in kwargs:
        return m.symbol()
    sizes = (("size", m.fresh()), ("size", m.fresh()))
    found: list[Value] = []
    for array in args:
        shape = shape_rules.of(array)
        for size, split in zip(sizes, ("train", ""), strict=True):
            known = Shape((size, *shape.dims[1:])) if shape is not None and shape.dims and not shape.open else None
            found.append(Symbol(m.fresh(), "", split, shape=known))
    return Tuple(tuple(found))


def _arrays(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Features and labels: (n, k) and (n,)."""
    size = m.fresh()
    rows = Symbol(m.fresh(), shape=Shape((("size", size), ("size", m.fresh()))))
    labels = Symbol(m.fresh(), shape=Shape((("size", size),)))
    if "return_X_y" in kwargs:
        return Tuple((rows, labels)) if kwargs.get("return_X_y") == Const(True) else m.symbol()
    bunch = m.symbol()
    m.store.set(("a", bunch.key, "data"), rows)
    m.store.set(("a", bunch.key, "target"), labels)
    return bunch


def _made_up(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`make_regression` and its like; with several targets or coefficients asked for, not known."""
    if set(kwargs) & {"n_targets", "coef", "return_centers", "**"}:
        return m.symbol()
    count = args[0] if args else kwargs.get("n_samples", Const(100))
    size = shape_rules.size_of(count)
    rows = Symbol(m.fresh(), shape=Shape((size, ("size", m.fresh()))))
    return Tuple((rows, Symbol(m.fresh(), shape=Shape((size,)))))


def scaled(owner: Object, name: str, args: Args, result: Value) -> Value:
    """A scaler of scikit-learn keeps the shape of what it scales."""
    shape = shape_rules.of(args[0]) if args else None
    if owner.type.startswith("sklearn.preprocessing.") and owner.type.endswith("Scaler") and shape is not None:
        if name in ("transform", "fit_transform", "inverse_transform") and isinstance(result, Tensor | Symbol):
            return replace(result, shape=shape)
    return result


_S = "sklearn.datasets."
HANDLERS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    **dict.fromkeys(tables.READERS, tables.made),
    "torch.utils.data.random_split": random_split,
    "torch.utils.data.dataset.random_split": random_split,
    "sklearn.model_selection.train_test_split": train_test_split,
    **{_S + f"load_{name}": _arrays for name in ("iris", "digits", "wine", "diabetes", "breast_cancer")},
    _S + "fetch_california_housing": _arrays,
    **{_S + f"make_{name}": _made_up for name in ("regression", "classification", "moons", "circles", "blobs")},
}
