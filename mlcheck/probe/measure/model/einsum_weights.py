"""What an einsum sums over of its first factor, where this is attention written in letters."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def weights_of(args: tuple[Any, ...]) -> Tensor | None:
    """The first of the two factors of `einsum("...", weights, values)`, or of a list of them."""
    factors = _factors(args)
    return factors[0] if len(factors) == 2 and isinstance(args[0], str) else None


def summed_dimension(args: tuple[Any, ...], normalised: int) -> int | None:
    """The dimension of the weights that is summed with the values'.

    None where several are, and where a softmax over another one may be meant: it shares what it weighs among a few
    centres, or it is over what both factors have. Weights of one set of places by itself have two sides of a length.
    """
    weights, _ = _factors(args)
    inside, _, outside = args[0].replace(" ", "").partition("->")
    mine, _, other = inside.partition(",")
    summed = [letter for letter in mine if letter in other and letter not in outside]
    if "." in inside or not outside or len(summed) != 1 or len({*mine}) != weights.ndim:
        return None
    place, over = mine.index(summed[0]), mine[normalised]
    square = weights.shape[place] == weights.shape[normalised] and over in outside and over not in other
    return place if place == normalised or square else None


def _factors(args: tuple[Any, ...]) -> tuple[Any, ...]:
    several = len(args) == 2 and isinstance(args[1], list | tuple)
    return tuple(args[1]) if several else args[1:]
