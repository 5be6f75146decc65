"""Targets that a loss or a last activation cannot reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, regression, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


@pytest.mark.parametrize(("scale", "told"), [(1.0, Outcome.PASS), (255.0, Outcome.FAIL), (-1.0, Outcome.FAIL)])
def test_labels_of_a_binary_cross_entropy(scale: float, told: Outcome) -> None:
    batches = [(torch.randn(16, 8), scale * (torch.rand(16, 5) > 0.5).float())] * 2
    loss = F.binary_cross_entropy_with_logits
    verdict = ask("label-out-of-range", trial_of(mlp(), batches, lambda model, batch: loss(model(batch[0]), batch[1])))
    says(verdict, told, f"gets labels {min(0, scale):g} to 1" if told is Outcome.PASS else "between 0 and 1")


def test_labels_beyond_one_that_are_weighted_away() -> None:
    def masked(model: nn.Module, batch: Any) -> Tensor:
        kept = batch[1] >= 0
        loss = F.binary_cross_entropy_with_logits(model(batch[0]), batch[1], reduction="none")
        return (loss * kept).sum() / kept.sum()

    batches = [(torch.randn(16, 8), torch.randint(-1, 2, (16, 5)).float())] * 2
    assert ask("label-out-of-range", trial_of(mlp(), batches, masked)).outcome is Outcome.SKIP


@pytest.mark.parametrize(("last", "low"), [(nn.Sigmoid(), 0.0), (nn.Tanh(), -3.0), (nn.ReLU(), -1.0)])
def test_targets_beyond_the_last_activation(last: nn.Module, low: float) -> None:
    verdict = ask("output-cannot-reach-targets", regression(torch.linspace(low, 16, 32)[:, None], last))
    says(verdict, Outcome.FAIL, "lie outside")


def chosen(pick: Callable[[Tensor, Tensor], Tensor], high: float, last: nn.Module, scale: float = 1.0) -> Trial:
    """Only some of the samples hold what is to be found."""
    y = torch.linspace(0, high, 32)[:, None]
    there = torch.arange(32) % 3 > 0

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.l1_loss(pick(model(batch[0]) * scale if scale != 1 else model(batch[0]), there), pick(batch[1], there))

    return trial_of(nn.Sequential(*mlp(out=1), last), [(torch.randn(32, 8), y)] * 4, loss)


PICKS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda t, there: t[there],
    lambda t, there: t.masked_select(there[:, None]),
    lambda t, there: t.index_select(0, there.nonzero().squeeze(1)),
    lambda t, there: t.split([10, 22])[1],
]


@pytest.mark.parametrize("pick", PICKS)
def test_targets_of_chosen_samples_beyond_the_last_activation(pick: Callable[[Tensor, Tensor], Tensor]) -> None:
    rule = "output-cannot-reach-targets"
    says(ask(rule, chosen(pick, 32.0, nn.Sigmoid())), Outcome.FAIL, "lie outside")
    says(ask(rule, chosen(pick, 1.0, nn.Sigmoid())), Outcome.PASS, "lie within")
    assert ask(rule, chosen(pick, 32.0, nn.Sigmoid(), scale=40.0)).outcome is Outcome.SKIP


def by_hand(y: Tensor, *last: nn.Module, scale: float = 1.0) -> Trial:
    """A squared difference that the program writes itself, of an output in units of its own."""

    def squares(model: nn.Module, batch: Any) -> Tensor:
        return (batch[1] - model(batch[0]).squeeze(1) * scale).pow(2).mean() if scale != 1 else plain(model, batch)

    def plain(model: nn.Module, batch: Any) -> Tensor:
        return (model(batch[0]).squeeze(1) - batch[1]).pow(2).mean()

    return trial_of(nn.Sequential(*mlp(out=1), *last), [(torch.randn(32, 8), y)] * 4, squares)


def test_targets_of_a_difference_written_by_hand() -> None:
    far = torch.linspace(-3, 900, 32)
    says(ask("output-cannot-reach-targets", by_hand(far, nn.Sigmoid())), Outcome.WARN, "comes from sigmoid")
    says(ask("targets-not-scaled", by_hand(far)), Outcome.WARN, "the targets of the loss run from -3 to 900")


def test_differences_written_by_hand_that_are_sound() -> None:
    near, far = torch.rand(32), torch.linspace(-3, 900, 32)
    says(ask("output-cannot-reach-targets", by_hand(near, nn.Sigmoid())), Outcome.PASS, "lie within")
    says(ask("targets-not-scaled", by_hand(near)), Outcome.PASS)
    for rule in ("output-cannot-reach-targets", "targets-not-scaled"):
        assert ask(rule, by_hand(far, nn.Sigmoid(), scale=1000.0)).outcome is Outcome.SKIP
        assert ask(rule, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP


def test_targets_within_the_last_activation() -> None:
    says(ask("output-cannot-reach-targets", regression(torch.rand(32, 1), nn.Sigmoid())), Outcome.PASS, "lie within")
    assert ask("output-cannot-reach-targets", regression(torch.randn(32, 1))).outcome is Outcome.SKIP


def paired(loss: str, targets: tuple[float, ...]) -> Trial:
    generator = torch.Generator().manual_seed(0)
    batches = [
        (torch.randn(32, 8, generator=generator), torch.tensor(targets)[torch.arange(32) % len(targets)])
        for _ in range(3)
    ]

    def value(model: Any, batch: Any) -> Tensor:
        near, far = model(batch[0]), model(batch[0].flip(1))
        match loss:
            case "cosine":
                return nn.CosineEmbeddingLoss(margin=0.2)(near, far, batch[1])
            case "ranking":
                return F.margin_ranking_loss(near[:, 0], far[:, 0], batch[1], margin=0.1)
            case "hinge":
                return F.hinge_embedding_loss((near - far).norm(dim=1), batch[1])
            case _:
                return F.soft_margin_loss(near[:, 0], batch[1])

    return trial_of(mlp(), batches, value)


@pytest.mark.parametrize("loss", ["cosine", "ranking", "hinge", "soft margin"])
def test_targets_that_are_to_have_a_sign(loss: str) -> None:
    says(ask("label-out-of-range", paired(loss, (0.0, 1.0))), Outcome.FAIL, "gets targets 0 and 1, and knows 1 and -1")
    for sound in ((-1.0, 1.0), (1.0,), (-1.0, 0.0, 1.0)):
        says(ask("label-out-of-range", paired(loss, sound)), Outcome.PASS)


@pytest.mark.parametrize(
    ("blank", "first", "outcome"), [(0, 0, Outcome.FAIL), (0, 1, Outcome.PASS), (6, 0, Outcome.PASS)]
)
@pytest.mark.parametrize("joined", [True, False])
def test_labels_that_are_the_blank_of_ctc(blank: int, first: int, outcome: Outcome, joined: bool) -> None:
    """Behind a sample's own labels there may be anything: here the padding is 0."""
    lengths = torch.tensor([2, 3, 1, 3])
    labels = torch.tensor([[first, 3, 0], [2, first, 4], [5, 0, 0], [1, 2, 3]])
    given = torch.cat([row[:length] for row, length in zip(labels, lengths)]) if joined else labels

    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores = model(batch).log_softmax(-1)
        return F.ctc_loss(scores.transpose(0, 1), given, torch.full((4,), 9), lengths, blank=blank)

    says(ask("label-out-of-range", trial_of(mlp(8, 7), [torch.randn(4, 9, 8)] * 2, loss)), outcome)


class Quantised(nn.Module):
    """An autoencoder whose codes are looked up, and start so small that an encoder's numbers are large beside them."""

    def __init__(self, last: float) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 16), nn.Linear(16, 8)
        self.codes = nn.Parameter(torch.empty(32, 16).uniform_(-1e-3, 1e-3))
        nn.init.normal_(self.decode.weight, std=last)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.encode(x)
        nearest = self.codes[torch.cdist(found, self.codes).argmin(1)]
        return self.decode(found + (nearest - found).detach()), found, nearest


@pytest.mark.parametrize(("last", "outcome"), [(0.2, Outcome.PASS), (3000.0, Outcome.WARN)])
def test_an_encoder_drawn_towards_its_codes_aims_at_no_data(last: float, outcome: Outcome) -> None:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        made, found, nearest = model(x)
        return F.mse_loss(x, made) + F.mse_loss(nearest, found.detach()) + 0.25 * F.mse_loss(nearest.detach(), found)

    verdict = ask("initial-loss-too-high", trial_of(Quantised(last), [torch.randn(32, 8)] * 3, loss))
    says(verdict, outcome)
    assert all("test_loss_targets" in str(finding.location) for finding in verdict.findings)


@pytest.mark.parametrize(("dim", "outcome"), [(1, Outcome.PASS), (0, Outcome.FAIL)])
def test_log_probabilities_in_few_bits(dim: int, outcome: Outcome) -> None:
    """Rounded to eight bits each, many classes' probabilities may sum to a hundredth more than one."""
    model = nn.Linear(8, 300)
    batches = [(torch.randn(32, 8), torch.randint(300, (32,))) for _ in range(3)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.nll_loss(model(batch[0]).bfloat16().log_softmax(dim), batch[1])

    says(ask("nll-without-log-softmax", trial_of(model, batches, loss)), outcome)


def tags(share: bool) -> Tensor:
    several = (torch.rand(32, 6, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    return several / several.sum(1, keepdim=True).clamp_min(1) if share else several


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        (tags(share=False), Outcome.WARN),
        (tags(share=True), Outcome.SKIP),
        (F.one_hot(torch.arange(32) % 6, 6).float(), Outcome.SKIP),
    ],
)
@pytest.mark.parametrize("loss", [F.cross_entropy, nn.CrossEntropyLoss(label_smoothing=0.1)])
def test_tags_for_a_softmax(target: Tensor, outcome: Outcome, loss: Any) -> None:
    trial = trial_of(mlp(8, 6), [(torch.randn(32, 8), target)] * 3, lambda m, b: loss(m(b[0]), b[1]))
    verdict = ask("output-cannot-reach-targets", trial)
    assert verdict.outcome is outcome, verdict
    assert ("all of them share 1" in verdict.summary) is (outcome is Outcome.WARN)
