"""The shapes that functions, methods and layers give their results. Where one is not known, nothing is said."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Sequence

from mlcheck.core.dataclasses import replace
from mlcheck.core.patterns import pattern
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.shapes import algebra as shapes
from mlcheck.lint.shapes import tables
from mlcheck.lint.shapes.comparing import is_compared
from mlcheck.lint.shapes.facts import Broadcast
from mlcheck.lint.shapes.names import ELEMENTWISE, FACTORIES, LIKE, REDUCTIONS, SAME, SAME_LAYERS
from mlcheck.lint.values import Args, Const, Kwargs, Object, Select, Shape, Symbol, Tensor, Tuple, Value, traces_of


def with_shape(value: Value, shape: Shape | None) -> Value:
    if shape is not None and isinstance(value, Tensor | Symbol):
        return replace(value, shape=shape)
    return value


def of(value: Value) -> Shape | None:
    """The shape of a value, of one of two if both have it; a number has none and broadcasts to any."""
    if isinstance(value, Tensor | Symbol):
        return value.shape
    if isinstance(value, Select):
        shape = of(value.then)
        return shape if shape is not None and shape == of(value.other) else None
    return shapes.SCALAR if isinstance(value, Const) and isinstance(value.value, int | float) else None


def size_of(value: Value) -> Hashable:
    """A value as a size: a number, or a key under which it equals itself."""
    if isinstance(value, Const):
        return value.value if isinstance(value.value, int) else None
    return ("size", value.key) if isinstance(value, Symbol) else None


def as_value(size: Hashable, m: Machine) -> Value:
    """A size as a value, for `x.shape[0]`."""
    if isinstance(size, int):
        return Const(size)
    return Symbol(size[1]) if isinstance(size, tuple) and size[:1] == ("size",) else m.symbol()


def sizes_in(m: Machine, args: Args) -> tuple[Hashable, ...] | None:
    """Sizes given one by one or as one sequence; `out.shape` and the like may stand for any number of them."""
    if len(args) == 1 and not isinstance(args[0], Const | Symbol):
        items = containers.items(m, args[0])
        return tuple(size_of(item) for item in items) if items is not None else None
    if any(isinstance(arg, Tensor | Tuple) or (isinstance(arg, Symbol) and _SHAPES.search(arg.name)) for arg in args):
        return None  # `tools.reshape(y, out.shape)` is no method of a tensor
    return tuple(size_of(arg) for arg in args) if args else None


_SHAPES = pattern(r"shape|^(?:sizes?|dims)$", re.IGNORECASE)


def number(value: Value | None) -> int | None:
    return value.value if isinstance(value, Const) and type(value.value) is int else None


def _numbers(m: Machine, args: Sequence[Value]) -> list[int] | None:
    items = containers.items(m, args[0]) if len(args) == 1 and not isinstance(args[0], Const) else list(args)
    found = [number(item) for item in items or ()]
    return [item for item in found if item is not None] if found and None not in found else None


def of_method(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs) -> Shape | None:
    """`owner.name(...)`, and `torch.name(owner, ...)` alike."""
    shape = of(owner)
    first = args[0] if args else None
    if name in ("view", "reshape"):
        if len(args) == 1 and isinstance(first, Symbol):
            return None
        sizes = sizes_in(m, args or [value for key, value in kwargs.items() if key == "shape"])
        return shapes.reshaped(shape, sizes) if sizes is not None else None
    if name in ("view_as", "reshape_as", "expand_as", "gather"):
        source = args[-1] if args else kwargs.get("index")
        return of(source) if source is not None else None
    if name in ("flatten", "ravel"):
        start = number(first if first is not None else kwargs.get("start_dim", Const(0)))
        return shapes.flattened(shape, start) if start is not None and len(args) < 2 else None
    if name in REDUCTIONS:
        return _reduced(m, shape, name, args, kwargs)
    if shape is None:
        return None
    if name in SAME:
        return shape
    if name in ELEMENTWISE:
        return shapes.broadcast(shape, of(first)) if first is not None else None
    dim = number(first if first is not None else kwargs.get("dim", kwargs.get("axis")))
    if name == "unsqueeze" or name == "expand_dims":
        return shapes.unsqueezed(shape, dim) if dim is not None else None
    if name == "squeeze":
        return shapes.squeezed(shape, dim) if dim is not None or not (args or kwargs) else None
    return _reordered(m, shape, name, args, kwargs)


def _reordered(m: Machine, shape: Shape, name: str, args: Args, kwargs: Kwargs) -> Shape | None:
    if name == "t" and not shape.open:
        return Shape(tuple(reversed(shape.dims)))
    if name in ("transpose", "swapaxes") and len(args) == 2:
        order = _numbers(m, args)
        return shapes.transposed(shape, *order) if order is not None else None
    if name in ("permute", "transpose"):
        order = _numbers(m, args)
        return shapes.permuted(shape, order) if order is not None else None
    if name in ("matmul", "mm", "bmm", "mv", "dot") and args:
        return shapes.multiplied(shape, of(args[0]))
    if name in ("split", "chunk", "tensor_split"):
        dim = number(args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", Const(0))))
        return shapes.parted(shape, dim) if dim is not None else None
    if name == "one_hot" and not shape.open:
        return Shape((*shape.dims, size_of(args[0]) if args else None))
    return None


def _reduced(m: Machine, shape: Shape | None, name: str, args: Args, kwargs: Kwargs) -> Shape | None:
    given = args[0] if args else kwargs.get("dim", kwargs.get("axis"))
    keep = args[1] if len(args) > 1 else kwargs.get("keepdim", kwargs.get("keepdims", Const(False)))
    if not isinstance(keep, Const) or "**" in kwargs:
        return None
    if given is None or given == Const(None):
        return shapes.reduced(shape, None, bool(keep.value))
    if name in ("max", "min", "median"):
        return None
    dims = _numbers(m, [given])
    return shapes.reduced(shape, dims, bool(keep.value)) if dims is not None else None


def of_function(m: Machine, name: str, args: Args, kwargs: Kwargs) -> Shape | None:
    """A function of torch, torch.nn.functional, numpy or math."""
    last = name.rpartition(".")[2]
    first = args[0] if args else kwargs.get("input")
    if name.startswith("math."):
        return shapes.SCALAR
    if name.startswith(("numpy.random.", "numpy.")) and "size" in kwargs:
        return _sized(m, [kwargs["size"]])
    if last == "randint":
        place = 1 if len(args) == 2 and name.startswith("torch.") else 2  # (high, size), or (low, high, size)
        given = args[place] if len(args) > place else kwargs.get("size")
        return _sized(m, [given]) if given is not None else None
    if last in FACTORIES and not name.startswith("numpy.random.rand"):
        return _sized(m, args[FACTORIES[last] :] if args else [kwargs["size"]] if "size" in kwargs else [])
    if name in ("numpy.random.rand", "numpy.random.randn"):
        return _sized(m, args)
    if last in ("arange", "linspace", "logspace", "randperm"):
        size = size_of(args[-1]) if args and (last != "arange" or len(args) == 1) else None
        return Shape((size,))
    if first is None:
        return None
    if last in LIKE:
        items = containers.items(m, first)
        return of(first) if items is None else _nested(m, items)
    if last == "stack":
        return _stacked(m, first, args, kwargs)
    if last in ("cat", "concat", "concatenate"):
        items = containers.items(m, first)
        dim = number(args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", Const(0))))
        return shapes.joined([of(item) for item in items], dim) if items and dim is not None else None
    return of_method(m, first, last, args[1:] if args else [], kwargs)


def _sized(m: Machine, args: Args) -> Shape | None:
    sizes = sizes_in(m, args)
    return Shape(sizes) if sizes is not None else None


def _nested(m: Machine, items: list[Value], depth: int = 3) -> Shape | None:
    """The shape of numbers in lists of equal length."""
    inner = containers.items(m, items[0]) if items else None
    if inner is None:
        plain = all(isinstance(item, Const) or of(item) == shapes.SCALAR for item in items)
        return Shape((len(items),)) if items and plain else None
    rest = _nested(m, inner, depth - 1) if depth else None
    return Shape((len(items), *rest.dims)) if rest is not None else None


def _stacked(m: Machine, first: Value, args: Args, kwargs: Kwargs) -> Shape | None:
    items = containers.items(m, first)
    dim = number(args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", Const(0))))
    shape = of(items[0]) if items else None
    if shape is None or items is None or dim is None or any(of(item) != shape for item in items):
        return None
    made = shapes.unsqueezed(shape, dim)
    place = shapes.position(made, dim) if made else None
    if made is None or place is None:
        return None
    return Shape((*made.dims[:place], len(items), *made.dims[place + 1 :]), made.open)


def of_operation(m: Machine, node: ast.expr, left: Value, right: Value, result: Value) -> Value:
    """The result of an operator on two tensors, with its shape."""
    one, two = of(left), of(right)
    if one is None or two is None or not (one.dims or two.dims):
        return result
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return with_shape(result, shapes.multiplied(one, two))
    if isinstance(getattr(node, "op", None), ast.Sub) or isinstance(node, ast.Compare):
        if is_compared(traces_of(left), traces_of(right)) and shapes.crosses(one, two):
            m.facts.broadcasts.append(Broadcast(m.place(node), (one, two)))
    if isinstance(result, Symbol) and not result.traces:
        result = replace(result, traces=traces_of(left, right))
    return with_shape(result, shapes.broadcast(one, two))


def of_attribute(m: Machine, owner: Tensor | Symbol, name: str) -> Value | None:
    """`x.shape` and `x.T` of a tensor whose shape is known."""
    shape = owner.shape
    if shape is None and name == "values" and isinstance(owner, Symbol):
        return tables.values_of_field(owner)
    if shape is None or shape.open:
        return None
    if name in ("values", "iloc") and isinstance(owner, Symbol):
        return tables.attribute(owner, name)
    if name == "shape":
        return Tuple(tuple(as_value(size, m) for size in shape.dims))
    if name in ("T", "mT") and len(shape.dims) == 2:
        return replace(owner, shape=Shape(tuple(reversed(shape.dims))))
    return None


def of_layer(m: Machine, module: Object, given: Value) -> Shape | None:
    """What a library layer makes of its input's shape."""
    name = module.type.rpartition(".")[2]
    shape = of(given)
    if name in ("Linear", "LazyLinear"):
        place = 0 if name == "LazyLinear" else 1
        out = module.args[place] if len(module.args) > place else module.kwargs.get("out_features")
        size = size_of(out) if out is not None else None
        return Shape((*shape.dims[:-1], size), shape.open) if shape and shape.dims else Shape((size,), True)
    if name in ("Conv1d", "Conv2d", "Conv3d"):
        out = module.args[1] if len(module.args) > 1 else module.kwargs.get("out_channels")
        batch = shape.dims[0] if shape and not shape.open and len(shape.dims) == int(name[4]) + 2 else None
        return Shape((batch, size_of(out) if out is not None else None, *[None] * int(name[4])))
    if name == "Flatten" and len(module.args) < 2 and "end_dim" not in module.kwargs:
        start = number(module.args[0] if module.args else module.kwargs.get("start_dim", Const(1)))
        return shapes.flattened(shape, start) if start is not None else None
    if name == "Embedding" and shape is not None and len(module.args) > 1:
        return Shape((*shape.dims, size_of(module.args[1])), shape.open)
    return shape if name.startswith(SAME_LAYERS) else None
