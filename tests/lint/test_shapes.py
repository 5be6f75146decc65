"""The algebra of shapes, against what PyTorch does with tensors of such sizes."""

from __future__ import annotations

import ast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mlcheck.lint.shapes import algebra as shapes
from mlcheck.lint.shapes.indexing import of_index, of_taken
from mlcheck.lint.values import Shape, Symbol

SIZES = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


def of(tensor: torch.Tensor) -> Shape:
    return Shape(tuple(tensor.shape))


@given(SIZES, SIZES)
def test_broadcasting_is_that_of_torch(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    try:
        real = of(torch.empty(one) + torch.empty(two))
    except RuntimeError:
        return
    assert shapes.broadcast(Shape(one), Shape(two)) == real


@given(SIZES, SIZES)
def test_what_outgrows_both_is_larger_than_both(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    try:
        both = (torch.empty(one) + torch.empty(two)).numel()
    except RuntimeError:
        return
    larger = both > torch.empty(one).numel() and both > torch.empty(two).numel()
    assert shapes.outgrows(Shape(one), Shape(two)) == larger


@given(SIZES.filter(bool), st.data())
def test_rearranging_is_that_of_torch(sizes: tuple[int, ...], data: st.DataObject) -> None:
    tensor, shape = torch.empty(sizes), Shape(sizes)
    dim = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    other = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    order = data.draw(st.permutations(range(len(sizes))))
    assert shapes.unsqueezed(shape, dim) == of(tensor.unsqueeze(dim))
    assert shapes.squeezed(shape, dim) == of(tensor.squeeze(dim))
    assert shapes.squeezed(shape) == of(tensor.squeeze())
    assert shapes.reduced(shape, [dim], keep=False) == of(tensor.sum(dim))
    assert shapes.reduced(shape, [dim], keep=True) == of(tensor.sum(dim, keepdim=True))
    assert shapes.transposed(shape, dim, other) == of(tensor.transpose(dim, other))
    assert shapes.permuted(shape, order) == of(tensor.permute(*order))


@given(SIZES.filter(lambda sizes: len(sizes) == 3))
def test_a_size_left_open_is_what_is_left(sizes: tuple[int, ...]) -> None:
    tensor = torch.empty(sizes)
    for asked in ((-1, sizes[2]), (sizes[0], -1), (-1, 1, sizes[1], sizes[2])):
        made = shapes.reshaped(Shape(sizes), asked)
        real = tuple(tensor.reshape(asked).shape)
        assert len(made.dims) == len(real)
        assert all(known in (None, size) for known, size in zip(made.dims, real, strict=True))


def test_a_size_that_is_not_known_may_be_one() -> None:
    assert shapes.squeezed(Shape(("n", None)), -1) is None
    assert shapes.squeezed(Shape((None, 1))) is None
    assert shapes.squeezed(Shape((None, 1)), -1) == Shape((None,))
    assert shapes.broadcast(Shape((None, 3)), Shape((3,))) == Shape((None, 3))


def test_equal_sizes_go_by_their_key() -> None:
    batch = ("batch", 7)
    assert shapes.crosses(Shape((batch, 1)), Shape((batch,)))
    assert not shapes.crosses(Shape((batch, 1)), Shape((("size", 3),)))
    assert not shapes.crosses(Shape((batch, 1)), Shape((batch, 1)))
    assert not shapes.crosses(Shape((batch,)), Shape((batch,)))


def test_an_open_rank_counts_as_a_batch_against_known_sizes_only() -> None:
    column = Shape((1,), open=True)
    assert shapes.outgrows(column, Shape((16,)))
    assert not shapes.outgrows(column, Shape((None,)))
    assert not shapes.outgrows(column, Shape((1,)))
    assert not shapes.outgrows(column, column)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (Shape((3,)), "(3,)"),
        (Shape((("batch", 1), 1)), "(n, 1)"),
        (Shape((1,), open=True), "(..., 1)"),
        (Shape(()), "()"),
    ],
)
def test_shapes_are_written_as_python_does(shape: Shape, text: str) -> None:
    assert shapes.written(shape) == text


@given(SIZES.filter(bool), st.integers(2, 6))
def test_the_first_of_a_dimension_are_no_more_than_it_has(sizes: tuple[int, ...], first: int) -> None:
    index = ast.parse(f"x[:{first}]", mode="eval").body
    assert isinstance(index, ast.Subscript)
    assert of_index(Shape(sizes), index.slice) == of(torch.empty(sizes)[:first])


@given(SIZES.filter(bool), st.integers(1, 6))
def test_rows_picked_by_position_are_as_many_as_the_positions(sizes: tuple[int, ...], count: int) -> None:
    rows, at = Symbol("rows", shape=Shape(sizes)), Symbol("at", shape=Shape((count,)))
    picked = of_taken(rows, at, Symbol("picked"))
    real = of(torch.empty(sizes)[torch.zeros(count, dtype=torch.long)])
    assert isinstance(picked, Symbol)
    # of a row as long as the data it may be a mask, which keeps nobody knows how many
    assert picked.shape == (real if count != sizes[0] else Shape((None, *sizes[1:])))
