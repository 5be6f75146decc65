"""Models that are another in some form of them, and near misses. They say nothing of what a program asks for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ByMemory(nn.Module):
    """Reads a row of numbers off the memory, as an extension does that was written for contiguous tensors."""

    def forward(self, x: Tensor) -> Tensor:
        size = x[0].numel()
        return x.as_strided((len(x), size), (size, 1))


class ByView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(len(x), -1)


class Strided(nn.Module):
    """Near misses: reshape, a permuted view, a pool over what is not contiguous."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1).permute(0, 3, 1, 2)
        return x.reshape(len(x), x.shape[1], -1).flatten(1)


class Unpools(nn.Module):
    """Puts values back where a pool found them: without a deterministic implementation on every device."""

    def forward(self, x: Tensor) -> Tensor:
        pooled, where = F.max_pool1d(x[:, None], 2, return_indices=True)
        return F.max_unpool1d(pooled, where, 2)[:, 0]


class BranchesOnData(nn.Module):
    """A trace keeps the way of the whole batch, whose mean is near 0."""

    def forward(self, x: Tensor) -> Tensor:
        if x.abs().mean() > 1:
            return x * 2
        return x


class KeepsASize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(int(x.shape[0]), 8) + torch.arange(len(x)).reshape(-1, 1)


class KnowsThatItIsScripted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.jit.is_scripting():  # type: ignore[attr-defined]
            return x + 1
        return x


class NearMiss(nn.Module):
    """Sizes that stay tensors' own, and a mode that is the same in every pass."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), -1, 2).flatten(1)
        if self.training:
            return x + 1
        return x - x.mean(1, keepdim=True)


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + torch.randn(len(x), 1)


class Unscriptable(nn.Module):
    """Calls by a name that is made when it runs."""

    def forward(self, x: Tensor) -> Tensor:
        name = f"rel{'u'}"
        return getattr(x, name)()  # type: ignore[no-any-return]
