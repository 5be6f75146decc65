"""A table of positions that is never added to the tokens, in a model to which their order is all the same."""

from __future__ import annotations

import pytest
import torch
from probe_programs import ask, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

RULE = "unused-layer"
LENGTH, WIDTH = 6, 8


class Encoder(nn.Module):
    """Attention over tokens. `adds` says whether the table of positions is added, `knows` that a GRU reads them."""

    def __init__(self, adds: bool = False, knows: bool = False, pooled: bool = True, rows: int = 10) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, WIDTH)
        self.register_buffer("pe", torch.randn(1, rows, WIDTH))
        self.attend = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True) if knows else None
        self.head = nn.Linear(WIDTH, 5)
        self.adds, self.pooled = adds, pooled

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x + self.pe[:, : ids.shape[1]] if self.adds else x
        x = x + self.attend(x, x, x)[0]
        x = self.gru(x)[0] if self.gru else x
        said: Tensor = self.head(x)
        return said.mean(1) if self.pooled else said.transpose(1, 2)


def batches(pooled: bool = True) -> list[tuple[Tensor, Tensor]]:
    ids = [torch.randint(0, 9, (16, LENGTH)) for _ in range(4)]
    return [(one, (one[:, 0] if pooled else one) % 5) for one in ids]


@pytest.mark.parametrize("pooled", [True, False])
def test_a_table_that_is_never_added(pooled: bool) -> None:
    verdict = ask(RULE, trial_of(Encoder(pooled=pooled), batches(pooled), cross_entropy))
    says(verdict, Outcome.WARN, "`pe` has a row for each place of a sequence, and no step reads it: the 6 places")


@pytest.mark.parametrize(
    "model",
    [Encoder(adds=True), Encoder(knows=True), Encoder(rows=LENGTH - 1)],
    ids=["it is added", "order is known without it", "no row for each place"],
)
def test_a_table_that_is_no_fault(model: Encoder) -> None:
    assert ask(RULE, trial_of(model, batches(), cross_entropy)).outcome is Outcome.SKIP


def test_a_model_of_sets_without_a_table() -> None:
    model = Encoder()
    del model.pe
    assert ask(RULE, trial_of(model, batches(), cross_entropy)).outcome is Outcome.SKIP


def test_a_table_that_the_loss_reads() -> None:
    model = Encoder()

    def drawn_to_table(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return cross_entropy(net, batch) + (net.embed.weight[:6] - model.pe[0, :6]).pow(2).mean()

    assert ask(RULE, trial_of(model, batches(), drawn_to_table)).outcome is Outcome.SKIP
