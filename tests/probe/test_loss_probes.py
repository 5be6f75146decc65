"""Probes of the loss: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def regression(target: Tensor, last: nn.Module | None = None) -> Any:
    model = nn.Sequential(*mlp(8, 1), *([last] if last else []))
    batches = [(torch.randn(32, 8), target) for _ in range(3)]
    return trial_of(model, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_column_against_a_row() -> None:
    verdict = ask("regression-broadcast", regression(torch.randn(32)))
    says(verdict, Outcome.FAIL, "predictions (32, 1) and targets (32,)", "32 × 32 differences")
    says(ask("regression-broadcast", regression(torch.randn(32, 1))), Outcome.PASS)


Written = Callable[[Tensor, Tensor], Tensor]
WRITTEN: list[Written] = [
    lambda said, given: (said - given).pow(2).mean(),
    lambda said, given: ((said > 0) == (given > 0)).float().mean() + said.mean(),
    lambda said, given: (F.mse_loss(said, given.view_as(said), reduction="none") * given.abs()).mean(),
]
MEANT: list[Written] = [
    lambda said, given: (said.squeeze(1) - given).pow(2).mean(),
    lambda said, given: (said.squeeze(1)[:, None] - given).abs().min(1).values.mean(),
    lambda said, given: (said - given[:, None]).pow(2).mean() + ((given[:, None] - given).abs() * said).mean(),
    lambda said, given: (said - said.T).pow(2).mean(),
    lambda said, given: (said.mean() - given.mean()).pow(2) + torch.maximum(said.sum(), given.sum()) - given.sum(),
]


@pytest.mark.parametrize("written", WRITTEN)
def test_all_pairs_in_a_loss_written_by_hand(written: Written) -> None:
    batches = [(torch.randn(16, 8), torch.randn(16))] * 2
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: written(model(batch[0]), batch[1]))
    says(ask("regression-broadcast", trial), Outcome.WARN, "the loss compares every", "(16, 1)", "16 × 16 values")


@pytest.mark.parametrize("written", MEANT)
def test_pairs_that_are_meant_and_none(written: Written) -> None:
    batches = [(torch.randn(16, 8), torch.randn(16))] * 2
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: written(model(batch[0]), batch[1]))
    assert ask("regression-broadcast", trial).outcome in (Outcome.PASS, Outcome.SKIP)


class Critic(nn.Module):
    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.net, self.flat = mlp(8, 1), flat

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1) if self.flat else self.net(x)


def of_two_models(flat: bool, weighted: Callable[[Tensor, Tensor], Tensor]) -> Trial:
    """What one model says, (n,), is weighed by what another says of the same states."""
    models = nn.ModuleDict({"actor": mlp(8, 3), "critic": Critic(flat)})

    def loss(models: Any, state: Tensor) -> Tensor:
        choices = torch.distributions.Categorical(logits=models["actor"](state))
        value = models["critic"](state)
        reward = state.sum(1) if flat else state.sum(1).unsqueeze(1)
        return weighted(choices.log_prob(choices.sample()), (reward - value).detach()) + (reward - value).pow(2).mean()

    return trial_of(models, [torch.randn(16, 8)] * 2, loss)


def test_an_advantage_that_is_a_column_weighs_every_action() -> None:
    def weighted(log_prob: Tensor, advantage: Tensor) -> Tensor:
        return -(log_prob * advantage).mean()

    said = ("makes all pairs of what goes together", "`mul` of", "16 × 16 values")
    says(ask("regression-broadcast", of_two_models(False, weighted)), Outcome.WARN, *said)
    assert ask("regression-broadcast", of_two_models(True, weighted)).outcome is Outcome.PASS
    meant = of_two_models(False, lambda log_prob, advantage: (log_prob.unsqueeze(1) * advantage).mean())
    assert ask("regression-broadcast", meant).outcome is Outcome.PASS


def test_all_pairs_in_the_evaluation_alone() -> None:
    model = mlp(8, 1)
    batches = [(torch.randn(16, 8), torch.randn(16, 1))] * 2
    trial = trial_of(model, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    trial.evaluate_step = lambda batch: {"mae": (model(batch[0]) - batch[1].flatten()).abs().mean().item()}
    says(ask("regression-broadcast", trial), Outcome.WARN, "the evaluation compares every prediction")


def test_a_mask_without_the_channel_of_the_picture() -> None:
    batches = [(torch.randn(4, 1, 6, 6), (torch.rand(4, 6, 6) > 0.5).float())] * 2

    def dice(model: nn.Module, batch: Any) -> Tensor:
        said = model(batch[0]).sigmoid()
        return 1 - 2 * (said * batch[1]).sum() / (said.sum() + batch[1].sum())

    verdict = ask("regression-broadcast", trial_of(nn.Conv2d(1, 1, 3, padding=1), batches, dice))
    says(verdict, Outcome.WARN, "`mul` of the model's (4, 1, 6, 6) and the batch's (4, 6, 6)")


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


def test_a_sum_over_the_batch() -> None:
    summed = trial_of(mlp(), classes(8), lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="sum"))
    says(ask("loss-sums-over-batch", summed), Outcome.WARN, "it doubles", "for 32 samples")
    averaged = trial_of(mlp(), classes(8), lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="sum") / len(b[0]))
    says(ask("loss-sums-over-batch", averaged), Outcome.PASS)


@pytest.mark.parametrize(
    ("kind", "bound", "outcome"),
    [
        (torch.optim.Adam, True, Outcome.PASS),
        (torch.optim.SGD, True, Outcome.WARN),
        (torch.optim.Adam, False, Outcome.WARN),
    ],
)
def test_a_bound_of_several_sums_under_an_optimizer_without_a_scale(kind: Any, bound: bool, outcome: Outcome) -> None:
    def elbo(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        return 1e3 * F.mse_loss(out, batch[0], reduction="sum") + bound * out.square().sum()

    trial = trial_of(mlp(8, 8), classes(8), elbo)
    trial.optimizers = {"optimizer": kind(trial.models["model"].parameters(), lr=1e-3)}
    says(ask("loss-sums-over-batch", trial), outcome)


def test_a_sum_beside_a_mean() -> None:
    def mixed(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        return F.cross_entropy(out, batch[1], reduction="sum") + 5 * F.mse_loss(out, torch.zeros_like(out))

    verdict = ask("loss-sums-over-batch", trial_of(mlp(), classes(8), mixed))
    says(verdict, Outcome.WARN, "`cross_entropy` is a sum over the batch and `mse_loss` a mean")


def test_batch_norm_and_dropout_do_not_hide_a_mean() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 5))
    says(ask("loss-sums-over-batch", trial_of(model, classes(8), cross_entropy)), Outcome.PASS)


def denoising(reduction: str) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        noise = torch.randn_like(batch[0])
        return F.mse_loss(model(batch[0] + noise), noise, reduction=reduction)

    return loss


def test_a_loss_that_draws_noise_is_averaged_over_draws() -> None:
    says(ask("loss-sums-over-batch", trial_of(mlp(8, 8), classes(8), denoising("mean"))), Outcome.PASS)
    summed = ask("loss-sums-over-batch", trial_of(mlp(8, 8), classes(8), denoising("sum")))
    says(summed, Outcome.WARN, "it doubles")


def test_a_loss_that_is_mostly_noise_is_left_open() -> None:
    def erratic(model: nn.Module, batch: Any) -> Tensor:
        return cross_entropy(model, batch) * (torch.randn_like(batch[0]).sum() / 4).exp()

    verdict = ask("loss-sums-over-batch", trial_of(mlp(), classes(8), erratic))
    says(verdict, Outcome.INCONCLUSIVE, "the loss draws random numbers")


def test_a_contrastive_loss_is_left_open() -> None:
    def contrast(model: nn.Module, batch: Any) -> Tensor:
        out = F.normalize(model(batch[0]), dim=1)
        return F.cross_entropy(out @ out.T / 0.1, torch.arange(len(out)))

    verdict = ask("loss-sums-over-batch", trial_of(mlp(), classes(8), contrast))
    says(verdict, Outcome.INCONCLUSIVE, "samples of a batch interact")


@pytest.mark.parametrize(("last", "low"), [(nn.Sigmoid(), 0.0), (nn.Tanh(), -3.0), (nn.ReLU(), -1.0)])
def test_targets_beyond_the_last_activation(last: nn.Module, low: float) -> None:
    verdict = ask("output-cannot-reach-targets", regression(torch.linspace(low, 16, 32)[:, None], last))
    says(verdict, Outcome.FAIL, "lie outside")


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


def decayed(weight: float) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return cross_entropy(model, batch) + weight * sum(p.pow(2).sum() for p in model.parameters())

    return trial_of(mlp(), classes(8), loss)


def test_a_penalty_that_drowns_the_loss() -> None:
    says(ask("penalty-outweighs-loss", decayed(10.0)), Outcome.WARN, "a penalty of", "times the gradient of the loss")
    says(ask("penalty-outweighs-loss", decayed(1e-4)), Outcome.PASS)


def test_a_term_that_knows_the_data_is_no_penalty() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        return 1e-3 * F.cross_entropy(out, batch[1]) + out.logsumexp(1).pow(2).mean()

    says(ask("penalty-outweighs-loss", trial_of(mlp(), classes(8), loss)), Outcome.PASS, "depends on the data")


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
    assert all("test_loss_probes" in str(finding.location) for finding in verdict.findings)


@pytest.mark.parametrize(("repeats", "outcome"), [(True, Outcome.WARN), (False, Outcome.SKIP)])
def test_the_first_of_a_series_may_be_smaller_than_the_rest(repeats: bool, outcome: Outcome) -> None:
    batches = [(torch.randn(32, 8), 1e-2 * torch.randn(32, 1)) for _ in range(3)]
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    trial.repeats_batches = repeats
    says(ask("initial-loss-too-high", trial), outcome)


@pytest.mark.parametrize(("dim", "outcome"), [(1, Outcome.PASS), (0, Outcome.FAIL)])
def test_log_probabilities_in_few_bits(dim: int, outcome: Outcome) -> None:
    """Rounded to eight bits each, many classes' probabilities may sum to a hundredth more than one."""
    model = nn.Linear(8, 300)
    batches = [(torch.randn(32, 8), torch.randint(300, (32,))) for _ in range(3)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.nll_loss(model(batch[0]).bfloat16().log_softmax(dim), batch[1])

    says(ask("nll-without-log-softmax", trial_of(model, batches, loss)), outcome)


class Tokens(UserDict[str, Tensor]):
    """A batch that can do what a dict cannot, as that of a tokenizer."""

    def to(self, device: str) -> Tokens:
        return Tokens({name: tensor.to(device) for name, tensor in self.items()})


@pytest.mark.parametrize(("reduction", "outcome"), [("mean", Outcome.PASS), ("sum", Outcome.WARN)])
def test_a_batch_that_moves_itself(reduction: str, outcome: Outcome) -> None:
    def loss(model: nn.Module, batch: Tokens) -> Tensor:
        given = batch.to("cpu")
        return F.cross_entropy(model(given["x"]), given["y"], reduction=reduction)

    batches = [Tokens({"x": x, "y": y}) for x, y in classes(8)]
    says(ask("loss-sums-over-batch", trial_of(mlp(), batches, loss)), outcome)
    says(ask("cannot-overfit-one-batch", trial_of(mlp(), batches, loss)), Outcome.PASS)
