"""Probes of the loss: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def test_a_loss_with_its_sign_flipped() -> None:
    trial = trial_of(mlp(), classes(8), lambda m, b: -cross_entropy(m, b))
    says(ask("loss-maximised", trial), Outcome.FAIL, "negative of cross_entropy", "derivative -1")


def test_a_loss_that_is_subtracted_beside_another_is_left_open() -> None:
    def adversarial(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        return F.cross_entropy(out[:, :3], batch[1] % 3) - 0.1 * F.cross_entropy(out[:, 3:], batch[1] % 2)

    says(ask("loss-maximised", trial_of(mlp(), classes(8), adversarial)), Outcome.INCONCLUSIVE, "adversarial")


@pytest.mark.parametrize("scale", [1.0, 0.25, 65536.0])
def test_a_scaled_loss_is_still_minimised(scale: float) -> None:
    trial = trial_of(mlp(), classes(8), lambda m, b: scale * cross_entropy(m, b))
    says(ask("loss-maximised", trial), Outcome.PASS)


class Encoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        return self.decode(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


def bound_by(sign: float, rate: float = 0.02, beside: float = 1.0) -> Trial:
    def elbo(model: nn.Module, batch: Any) -> Tensor:
        rebuilt, mean, log_variance = model(batch[0])
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        held = rebuilt if beside == 1.0 else rebuilt.tanh()
        return beside * F.mse_loss(held, batch[0]) + sign * divergence

    model = Encoding()
    with torch.no_grad():
        model.encode.weight.div_(beside**0.5)
    return trial_of(model, classes(8), elbo, torch.optim.Adam(model.parameters(), lr=rate))


def test_a_divergence_that_is_subtracted() -> None:
    verdict = ask("loss-maximised", bound_by(-1.0))
    says(verdict, Outcome.WARN, "no lower bound", "ever faster", "with `encode (Linear)`")
    says(ask("loss-maximised", bound_by(1.0)), Outcome.PASS)


def test_a_divergence_that_is_subtracted_from_far_more() -> None:
    """Outputs 16 times as large make the whole loss rise yet."""
    says(ask("loss-maximised", bound_by(-1.0, rate=0.3, beside=500.0)), Outcome.WARN, "no lower bound", "ever faster")
    says(ask("loss-maximised", bound_by(1.0, rate=0.3, beside=500.0)), Outcome.PASS)


def test_a_loss_that_plunges_is_no_measure_of_a_learning_rate() -> None:
    """By steps of 0.1 it falls to -1e10 and stays about there: neither ever faster to the end, nor divergence."""
    says(ask("loss-maximised", bound_by(-1.0, rate=0.1)), Outcome.WARN, "no lower bound")
    says(ask("learning-rate-too-high", bound_by(-1.0, rate=0.1)), Outcome.INCONCLUSIVE, "no lower bound")
    assert ask("learning-rate-too-high", bound_by(1.0, rate=0.02)).outcome is not Outcome.FAIL


def narrowing(model: nn.Module, batch: Any) -> Tensor:
    """The negative likelihood of targets that hardly vary falls below zero as the density narrows."""
    mean, log_scale = model(batch[0])[:, :2].chunk(2, dim=1)
    return (log_scale + 0.5 * ((0.001 * batch[0][:, :1] - mean) / log_scale.exp()) ** 2).mean()


def critic(model: nn.Module, batch: Any) -> Tensor:
    """Falls for ever, in proportion: what keeps a Wasserstein critic in bounds is beside the loss."""
    out = model(batch[0])[:, 0]
    return out[::2].mean() - out[1::2].mean()


@pytest.mark.parametrize("loss", [narrowing, critic])
def test_losses_that_may_fall_below_zero_are_no_flipped_sign(loss: Any) -> None:
    says(ask("loss-maximised", trial_of(mlp(), classes(8), loss)), Outcome.SKIP, "no loss of torch.nn.functional")


def test_a_last_layer_that_starts_too_wide() -> None:
    model = mlp()
    nn.init.normal_(model[4].weight, std=10.0)
    says(ask("initial-loss-too-high", trial_of(model, classes(8), cross_entropy)), Outcome.WARN, "before training")


@pytest.mark.parametrize(("scale", "outcome"), [(1.0, Outcome.PASS), (60.0, Outcome.WARN)])
def test_what_a_mask_leaves_out_counts_for_nothing_before_training(scale: float, outcome: Outcome) -> None:
    """Boxes, say, of the few cells that hold one; the target of all others is zero."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, where, holds = batch
        error = F.l1_loss(scale * model(x).sigmoid(), where * holds, reduction="none")
        return (error * holds).sum() / holds.sum().clamp(min=1)

    batches = [(torch.randn(64, 8), torch.rand(64, 4), (torch.rand(64, 1) < 0.1).float()) for _ in range(3)]
    says(ask("initial-loss-too-high", trial_of(mlp(8, 4), batches, loss)), outcome)


@pytest.mark.parametrize("name", ["mlp", "lenet", "regression", "multilabel", "log-softmax", "segmentation"])
def test_default_initialisations_start_at_chance(name: str) -> None:
    says(ask("initial-loss-too-high", SOUND[name]()), Outcome.PASS)


def test_a_pretrained_model_may_start_low() -> None:
    trial = SOUND["mlp"]()
    for index, batch in enumerate(list(trial.train_batches()) * 40):
        trial.train_step(batch, index)
    says(ask("initial-loss-too-high", trial), Outcome.PASS)


@pytest.mark.parametrize(("scale", "outcome"), [(1.0, Outcome.PASS), (60.0, Outcome.WARN)])
def test_of_a_loss_for_each_task_no_single_one_says_what_a_guess_costs(scale: float, outcome: Outcome) -> None:
    """The first of the tasks has targets near zero, the others have not."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return torch.stack([F.mse_loss(scale * model(x), y) for x, y in zip(*batch)]).mean()

    spread = torch.tensor([0.02, 1.0, 1.5, 2.0])[:, None, None]
    batches = [(torch.randn(4, 16, 8), spread * torch.randn(4, 16, 5)) for _ in range(3)]
    says(ask("initial-loss-too-high", trial_of(mlp(), batches, loss)), outcome)


def test_one_target_that_happens_to_be_near_zero() -> None:
    """As of a critic that learns from the step it has just taken."""
    model = nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))
    nn.init.constant_(model[0].bias, 1.0)
    batches = [(torch.randn(1, 8), torch.tensor([0.02])) for _ in range(4)]
    trial = trial_of(model, batches, lambda model, batch: F.smooth_l1_loss(model(batch[0]), batch[1]))
    says(ask("initial-loss-too-high", trial), Outcome.SKIP, "too few to judge by")


def test_a_step_that_switches_gradients_off_in_turn() -> None:
    """As a GAN does: what is frozen while backward runs has no gradient to ask for."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch: Any, index: int) -> None:
        model[0].requires_grad_(False)
        optimizer.zero_grad()
        (cross_entropy(model, batch) + 1e-3 * model[-1].weight.square().sum()).backward()
        optimizer.step()
        model[0].requires_grad_(True)

    verdict = ask("penalty-outweighs-loss", trial_of(model, classes(8), cross_entropy, optimizer, step))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary


def regularised(decay: float) -> Trial:
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=decay)
    return trial_of(model, [(x, x[:, :5].argmax(1)) for x, _ in classes(8)], cross_entropy, optimizer)


@pytest.mark.parametrize(("decay", "outcome"), [(5.0, Outcome.WARN), (0.1, Outcome.PASS), (0.0, Outcome.PASS)])
def test_a_weight_decay_that_keeps_a_model_from_learning(decay: float, outcome: Outcome) -> None:
    verdict = ask("penalty-outweighs-loss", regularised(decay))
    assert verdict.outcome is outcome, verdict.summary
    if outcome is Outcome.WARN:
        assert "the weight decay of 5 keeps the model from learning" in verdict.summary


@pytest.mark.parametrize(("decay", "outcome"), [(1.0, Outcome.WARN), (0.11, Outcome.PASS)])
def test_a_weight_decay_that_takes_back_what_was_learnt(decay: float, outcome: Outcome) -> None:
    """Behind batch norm the scale of weights is nothing to the loss until it is nearly 0."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Linear(8, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 48), nn.BatchNorm1d(48), nn.ReLU()),
        *(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1)),
    )
    batches = [(x, x[:, :1] + x[:, 1:2].relu() * x[:, 2:3]) for x, _ in classes(8, batches=30, size=50)]
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=decay)
    trial = trial_of(model, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]), optimizer)
    said = ("and is at",) if outcome is Outcome.WARN else ()
    says(ask("penalty-outweighs-loss", trial), outcome, *said)


def test_a_weight_decay_that_keeps_a_model_from_noise() -> None:
    """Without it every wrong label is learnt by heart in the end."""
    torch.manual_seed(0)
    model = mlp()
    wrong = [(x, torch.where(torch.rand(len(x)) < 0.5, y, x[:, :5].argmax(1))) for x, y in classes(8, batches=6)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1.0)
    says(ask("penalty-outweighs-loss", trial_of(model, wrong, cross_entropy, optimizer)), Outcome.PASS)


@pytest.mark.parametrize(("decay", "outcome"), [(60.0, Outcome.WARN), (0.2, Outcome.PASS)])
def test_a_weight_decay_that_a_warm_up_hides_at_first(decay: float, outcome: Outcome) -> None:
    trial = regularised(0.0)
    optimizer = torch.optim.AdamW(trial.models["model"].parameters(), lr=1e-2, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 1000))
    trial = trial_of(trial.models["model"], [(x, x[:, :5].argmax(1)) for x, _ in classes(8)], cross_entropy, optimizer)
    trial.schedulers = {"warm": schedule}
    assert ask("penalty-outweighs-loss", trial).outcome is outcome


@pytest.mark.parametrize(("repeats", "outcome"), [(True, Outcome.WARN), (False, Outcome.SKIP)])
def test_the_first_of_a_series_may_be_smaller_than_the_rest(repeats: bool, outcome: Outcome) -> None:
    batches = [(torch.randn(32, 8), 1e-2 * torch.randn(32, 1)) for _ in range(3)]
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    trial.repeats_batches = repeats
    says(ask("initial-loss-too-high", trial), outcome)


@pytest.mark.parametrize(("margin", "outcome"), [(0.4, Outcome.SKIP), (0.0, Outcome.WARN)])
def test_a_margin_that_is_taken_off_the_wanted_class(margin: float, outcome: Outcome) -> None:
    """A first loss far above chance is then meant; the same scale without a margin is a model that is too sure."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        cosine = F.normalize(model(batch[0]), dim=1)
        wanted = F.one_hot(batch[1], 5).bool()
        return F.cross_entropy(16 * torch.where(wanted, cosine - margin, cosine), batch[1])

    says(ask("initial-loss-too-high", trial_of(mlp(), classes(8, size=64), loss)), outcome)


@pytest.mark.parametrize(("bias", "outcome"), [(-2.7, Outcome.PASS), (4.0, Outcome.WARN)])
def test_a_bias_at_the_share_of_rare_positives_under_a_focal_loss(bias: float, outcome: Outcome) -> None:
    model = mlp(8, 1)
    nn.init.normal_(model[4].weight, std=0.01)
    nn.init.constant_(model[4].bias, bias)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores, rare = model(batch[0])[:, 0], batch[1]
        each = F.binary_cross_entropy_with_logits(scores, rare, reduction="none")
        p = scores.sigmoid()
        return (each * (1 - torch.where(rare > 0, p, 1 - p)).square()).sum() / rare.sum()

    batches = [(torch.randn(64, 8), (torch.arange(64) % 16 == 0).float()) for _ in range(3)]
    says(ask("initial-loss-too-high", trial_of(model, batches, loss)), outcome)
