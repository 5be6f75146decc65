"""The algebra of shapes: what rearranging, reducing and broadcasting make of them. None is a shape not known."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from mlcheck.lint.values import Shape

Dims = tuple[Hashable, ...]
SCALAR = Shape(())


def position(shape: Shape, dim: int, extra: int = 0) -> int | None:
    """Where the dimension `dim` (negative: from the end) stands in `dims`; None when that is not known."""
    rank = len(shape.dims) + extra
    if dim < 0:
        return rank + dim if rank + dim >= 0 else None
    return dim if not shape.open and dim < rank else None


def unsqueezed(shape: Shape | None, dim: int) -> Shape | None:
    place = position(shape, dim, 1) if shape else None
    if shape is None or place is None:
        return None
    return Shape((*shape.dims[:place], 1, *shape.dims[place:]), shape.open)


def squeezed(shape: Shape | None, dim: int | None = None) -> Shape | None:
    """Without the dimension if it is 1; without `dim`, all that are 1. A size that is not known may be 1."""
    if shape is None:
        return None
    if dim is None:
        known = None not in shape.dims and not shape.open
        return Shape(tuple(size for size in shape.dims if size != 1)) if known else None
    place = position(shape, dim)
    if place is None or shape.dims[place] is None:
        return None
    if shape.dims[place] != 1:
        return shape if isinstance(shape.dims[place], int) else None
    return Shape(shape.dims[:place] + shape.dims[place + 1 :], shape.open)


def reduced(shape: Shape | None, dims: Sequence[int] | None, keep: bool) -> Shape | None:
    """Summed over `dims`; over all of them when None."""
    if dims is None:
        return SCALAR if not keep else None
    if shape is None:
        return None
    places = [position(shape, dim) for dim in dims]
    if None in places:
        return None
    left = [(1 if index in places else size) for index, size in enumerate(shape.dims) if keep or index not in places]
    return Shape(tuple(left), shape.open)


def parted(shape: Shape, dim: int) -> Shape | None:
    """The parts that a tensor is cut into along `dim`, as if stacked: how many, and how long, is not known."""
    place = position(shape, dim)
    if place is None or shape.open:
        return None
    return Shape((None, *shape.dims[:place], None, *shape.dims[place + 1 :]))


def permuted(shape: Shape | None, order: Sequence[int]) -> Shape | None:
    if shape is None or shape.open or len(order) != len(shape.dims):
        return None
    places = [position(shape, dim) for dim in order]
    return Shape(tuple(shape.dims[place] for place in places if place is not None)) if None not in places else None


def transposed(shape: Shape | None, one: int, two: int) -> Shape | None:
    first, second = (position(shape, dim) if shape else None for dim in (one, two))
    if shape is None or first is None or second is None:
        return None
    dims = list(shape.dims)
    dims[first], dims[second] = dims[second], dims[first]
    return Shape(tuple(dims), shape.open)


def reshaped(shape: Shape | None, sizes: Dims) -> Shape:
    """The sizes asked for; a -1 is what is left of the old ones, if that is one of them."""
    if sizes.count(-1) != 1:
        return Shape(tuple(None if size == -1 else size for size in sizes))
    rest: Hashable = None
    if shape is not None and not shape.open and None not in shape.dims:
        left = [size for size in shape.dims if size != 1]
        for size in sizes:
            if size in left:
                left.remove(size)
            elif size not in (-1, 1):
                left = [None, None]
        rest = left[0] if len(left) == 1 else 1 if not left else None
    return Shape(tuple(rest if size == -1 else size for size in sizes))


def flattened(shape: Shape | None, start: int) -> Shape | None:
    """The shape of `x.flatten(start)`."""
    if shape is None or shape.open:
        return Shape((None,) * (start + 1)) if start in (0, 1) else None
    first = position(shape, start)
    if first is None:
        return None
    merged = [size for size in shape.dims[first:] if size != 1]
    size: Hashable = merged[0] if len(merged) == 1 else 1 if not merged else None
    return Shape((*shape.dims[:first], size))


def broadcast(one: Shape | None, two: Shape | None) -> Shape | None:
    """The shape of an elementwise operation on both."""
    if one is None or two is None:
        return None
    dims: list[Hashable] = []
    for back in range(1, max(len(one.dims), len(two.dims)) + 1):
        a, b = (size_at(shape, back) for shape in (one, two))
        dims.append(b if a == 1 else a if b in (1, a) else None)
    return Shape(tuple(reversed(dims)), one.open or two.open)


def size_at(shape: Shape, back: int) -> Hashable:
    """The size of the `back`-th dimension from the end; a missing one counts as 1, an unseen one is not known."""
    if back <= len(shape.dims):
        return shape.dims[-back]
    return None if shape.open else 1


def outgrows(one: Shape, two: Shape) -> bool:
    """Whether broadcasting makes of two tensors one that is larger than both: each stretches the other.

    A shape of open rank counts as a batch, against one whose sizes are all known to be no 1: only the batch's own may
    go without a number.
    """
    open_ = one.open or two.open
    closed = two if one.open else one
    if open_ and ((one.open and two.open) or None in closed.dims):
        return False
    if open_ and not all(isinstance(size, int) for size in closed.dims[1:]):
        return False
    stretched = [False, False]
    for back in range(1, max(len(one.dims), len(two.dims)) + 1 + open_):
        a, b = size_at(one, back), size_at(two, back)
        stretched[0] |= a == 1 and b != 1
        stretched[1] |= b == 1 and a != 1
    return all(stretched)


def crosses(one: Shape, two: Shape) -> bool:
    """Whether two tensors for the same samples, one a column and one flat, broadcast to every pair of them."""
    flat, column = sorted((one, two), key=lambda shape: len(shape.dims) + shape.open)
    if flat.open or len(flat.dims) != 1 or not outgrows(one, two):
        return False
    return column.open or (len(column.dims) == 2 and column.dims[0] == flat.dims[0] is not None)


def joined(parts: Sequence[Shape | None], dim: int) -> Shape | None:
    """The shape of tensors put one behind another along a dimension, of which at least one has a known rank."""
    closed = [part for part in parts if part is not None and not part.open]
    place = position(closed[0], dim) if closed else None
    if place is None or any(len(part.dims) != len(closed[0].dims) for part in closed):
        return None
    sizes = [part.dims[place] for part in closed]
    known = [size for size in sizes if isinstance(size, int)]
    dims = [next((size for size in each if size is not None), None) for each in zip(*(part.dims for part in closed))]
    dims[place] = sum(known) if len(known) == len(parts) and all(known) else None  # what is empty may be filled later
    return Shape(tuple(dims))


def multiplied(one: Shape | None, two: Shape | None) -> Shape | None:
    """The shape of `one @ two`, of vectors, matrices and batches of them."""
    if one is None or two is None or one.open or two.open or not one.dims or not two.dims:
        return None
    if len(one.dims) > 2 or len(two.dims) > 2:
        if min(len(one.dims), len(two.dims)) < 2:
            return None
        batch = broadcast(Shape(one.dims[:-2]), Shape(two.dims[:-2]))
        return Shape((*batch.dims, one.dims[-2], two.dims[-1])) if batch is not None else None
    return Shape((*one.dims[:-1], *two.dims[1:]))


def written(shape: Shape) -> str:
    """`(n, 1)`: sizes that are not known by a letter."""
    sizes = [str(size) if isinstance(size, int) else "n" for size in shape.dims]
    if shape.open:
        sizes.insert(0, "...")
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
