"""How large gradients are, and which of them hold anything: every kind of tensor that a gradient may be."""

import math

import torch

from mlcheck.probe.measure.training.extents import extent_of, filled, magnitudes


def test_a_gradient_is_full_where_one_element_is_not_zero() -> None:
    gradients = {
        "nothing": (None, False),
        "zeros": (torch.zeros(3), False),
        "positive": (torch.tensor([0.0, 1e-40]), True),
        "negative alone": (torch.tensor([0.0, -1e-40]), True),
        "all negative": (torch.tensor([-1.0, -2.0]), True),
        "no number": (torch.tensor([0.0, math.nan]), True),
        "empty": (torch.zeros(0), False),
        "half": (torch.tensor([0.0, -1.0], dtype=torch.bfloat16), True),
        "complex": (torch.tensor([0j, -1j]), True),
        "complex zeros": (torch.zeros(2, dtype=torch.complex64), False),
        "sparse": (torch.tensor([0.0, -1.0]).to_sparse(), True),
        "sparse zeros": (torch.zeros(2).to_sparse(), False),
    }
    found = filled([gradient for gradient, _ in gradients.values()])
    assert dict(zip(gradients, found, strict=True)) == {name: full for name, (_, full) in gradients.items()}


def test_the_largest_element_counts_by_magnitude_and_no_number_is_infinite() -> None:
    gradients = [torch.tensor([1.0, -3.0]), torch.tensor([2.0, math.nan]), torch.zeros(2)]
    assert magnitudes([*map(extent_of, gradients), None]) == [3.0, math.inf, 0.0, 0.0]
