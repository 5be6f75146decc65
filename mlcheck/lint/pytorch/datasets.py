"""Data sets made of tensors, their parts, and the batches a loader makes of them; arrays of well-known data sets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.frames import DeadPath
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.shapes import tables
from mlcheck.lint.values import Args, Const, Kwargs, Object, Shape, Symbol, Table, Tensor, Tuple, Value

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
    rows = _Rows(tuple(enumerate(map(_row, tensors)))) if tensors is not None else _sample(m, data)
    if rows is None:
        return None
    split = containers.split_of_iterable(m, loader)
    found: dict[Hashable, Value] = {}
    for key, row in rows.shapes:
        batched = Shape((("batch", loader.id), *row.dims)) if row is not None else None
        found[key] = Symbol(("batch", loader.id, key, m.fresh()), "", split, shape=batched)
    return containers.new_dict(m, Table(found)) if rows.named else Tuple(tuple(found.values()))


class _Rows(NamedTuple):
    """The shapes of the parts of one sample, by number or, where it is `named`, by the keys of a dictionary."""

    shapes: tuple[tuple[Hashable, Shape | None], ...]
    named: bool = False


def _row(tensor: Value) -> Shape | None:
    shape = shape_rules.of(tensor)
    return shape.row if shape is not None else None


def _sample(m: Machine, data: Value) -> _Rows | None:
    """The shapes of what `data[index]` of a data set of the project returns, where that is a tuple or a dictionary."""
    while isinstance(data, Object) and data.type == _SUBSET and data.args:
        data = data.args[0]
    info = data.cls.find("__getitem__") if isinstance(data, Object) and data.cls is not None else None
    if not isinstance(data, Object) or info is None or info.generator:
        return None
    known: _Rows | None = m.store.get(("sample", data.id))
    if known is not None:
        return known
    mark = m.store.mark()
    try:
        found = containers.contents(m, m.call_method(data, "__getitem__", [Const(1)], {}, info.node))
    except DeadPath:
        return None
    finally:
        m.store.undo(mark)
    if not isinstance(found, Tuple | Table) or found.open or not found.items:
        return None
    parts = found.items.items() if isinstance(found, Table) else enumerate(found.items)
    rows = _Rows(tuple((key, _closed(item)) for key, item in parts), isinstance(found, Table))
    m.store.set(("sample", data.id), rows)
    return rows


def _closed(value: Value) -> Shape | None:
    shape = shape_rules.of(value)
    return shape if shape is not None and not shape.open else None


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
            key: Hashable = ("table", m.fresh()) if tables.is_table(array) else m.fresh()
            found.append(Symbol(key, "", split, shape=known))
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


def answered(m: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, result: Value) -> Value:
    """With its shape, what a scaler of scikit-learn makes of its input, and what a generator of numpy draws."""
    if not isinstance(result, Tensor | Symbol):
        return result
    if owner.type == _GENERATOR:
        size = args[0] if args and name in ("random", "standard_normal") else kwargs.get("size")
        sizes = shape_rules.sizes_in(m, [size]) if size is not None else None
        return shape_rules.with_shape(result, Shape(sizes)) if sizes is not None else result
    scales = owner.type.startswith("sklearn.preprocessing.") and owner.type.endswith("Scaler")
    if scales and args and name in ("transform", "fit_transform", "inverse_transform"):
        return shape_rules.with_shape(result, shape_rules.of(args[0]))
    return result


def _generator(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Object(_GENERATOR, m.fresh(), None, tuple(args), kwargs, m.place(node))


_GENERATOR = "numpy.random.Generator"
_S = "sklearn.datasets."
HANDLERS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    **dict.fromkeys(tables.READERS, tables.made),
    "torch.utils.data.random_split": random_split,
    "torch.utils.data.dataset.random_split": random_split,
    "sklearn.model_selection.train_test_split": train_test_split,
    "numpy.random.default_rng": _generator,
    **{_S + f"load_{name}": _arrays for name in ("iris", "digits", "wine", "diabetes", "breast_cancer")},
    _S + "fetch_california_housing": _arrays,
    **{_S + f"make_{name}": _made_up for name in ("regression", "classification", "moons", "circles", "blobs")},
}
