"""The functions and methods of torch that draw random numbers."""

from __future__ import annotations

import torch

_DRAWS = {
    "rand",
    "randn",
    "randint",
    "randperm",
    "rand_like",
    "randn_like",
    "randint_like",
    "normal",
    "bernoulli",
    "multinomial",
    "poisson",
    "normal_",
    "uniform_",
    "bernoulli_",
}
DRAWING = {
    function
    for owner in (torch, torch.Tensor, torch._C.TensorBase)
    for name in _DRAWS
    if (function := getattr(owner, name, None)) is not None
}
