"""Attention whose heads are taken apart by a view alone, or put together by one; and attention that moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.attention_heads import AttentionHeads
from mlcheck.trial.trial import Trial

HEADS = 4
Split = Callable[[Tensor], Tensor]
Merge = Callable[[Tensor], Tensor]


def moved(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def viewed(x: Tensor) -> Tensor:
    return x.reshape(len(x), HEADS, x.shape[1], -1)


def moved_back(x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(len(x), x.shape[2], -1)


def viewed_back(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], -1)


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def written(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q / q.shape[-1] ** 0.5 @ k.transpose(-2, -1), dim=-1) @ v


class Attending(nn.Module):
    def __init__(self, split: Split, merge: Merge, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 5)
        self._split, self._merge, self._attend = split, merge, attend

    def forward(self, x: Tensor) -> Tensor:
        parts = (self._split(part) for part in (layer(x) for layer in self._layers()))
        return self.out(self._merge(self._attend(*parts)).mean(1))

    def _layers(self) -> list[Callable[[Tensor], Tensor]]:
        rows = [slice(16 * k, 16 * k + 16) for k in range(3)]
        return [lambda x, r=r: F.linear(x, self.qkv.weight[r], self.qkv.bias[r]) for r in rows]  # type: ignore[misc]


def attending(split: Split, merge: Merge, attend: Callable[..., Tensor]) -> Trial:
    generator = torch.Generator().manual_seed(0)
    batches: list[Any] = [
        (torch.randn(8, 6, 16, generator=generator), torch.randint(5, (8,), generator=generator)) for _ in range(4)
    ]
    return trial_of(Attending(split, merge, attend), batches, cross_entropy)


@pytest.mark.parametrize("attend", [fused, written])
def test_heads_taken_apart_by_a_view(attend: Callable[..., Tensor]) -> None:
    verdict = ask("view-as-transpose", attending(viewed, moved_back, attend))
    says(verdict, Outcome.WARN, "a view makes (8, 4, 6, 4) of (8, 6, 16)")
    assert verdict.findings[0].location.path.endswith("test_attention_heads.py")
    apart = attending(lambda x: viewed(x.unflatten(2, (HEADS, -1))), moved_back, attend)
    says(ask("view-as-transpose", apart), Outcome.WARN, "a view makes (8, 4, 6, 4) of (8, 6, 4, 4)")


@pytest.mark.parametrize("attend", [fused, written])
def test_heads_put_together_by_a_view(attend: Callable[..., Tensor]) -> None:
    says(ask("view-as-transpose", attending(moved, viewed_back, attend)), Outcome.WARN, "makes (8, 6, 16) of (8, 4, 6")


@pytest.mark.parametrize("attend", [fused, written])
def test_heads_that_are_moved(attend: Callable[..., Tensor]) -> None:
    says(ask("view-as-transpose", attending(moved, moved_back, attend)), Outcome.PASS, "moved, not renumbered")


def test_products_that_torch_makes_itself_are_products() -> None:
    assert not AttentionHeads.absent(frozenset({"scaled_dot_product_attention"}))
    assert AttentionHeads.absent(frozenset({"linear"}))


def test_groups_of_tokens_that_nothing_attends_to() -> None:
    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(viewed(x).mean(2).flatten(1))

    batches = [(torch.randn(8, 6, 16), torch.randint(5, (8,))) for _ in range(3)]
    assert ask("view-as-transpose", trial_of(Grouped(), batches, cross_entropy)).outcome is Outcome.SKIP
