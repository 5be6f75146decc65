"""What a loss makes of the number of samples: sums, means, penalties beside them."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import loss_sums_over_batch
from mlcheck.probe.measure.loss.first_loss import FirstLoss


def test_a_sum_over_the_batch() -> None:
    summed = trial_of(mlp(), classes(8), lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="sum"))
    says(ask("loss-sums-over-batch", summed), Outcome.WARN, "it doubles", "for 32 samples")
    averaged = trial_of(mlp(), classes(8), lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="sum") / len(b[0]))
    says(ask("loss-sums-over-batch", averaged), Outcome.PASS)


@pytest.mark.parametrize(
    ("reduction", "part", "outcome"),
    [("sum", 1.0, Outcome.WARN), ("sum", 1 / 16, Outcome.SKIP), ("mean", 1.0, Outcome.SKIP)],
)
def test_a_sum_over_samples_that_lie_end_to_end(reduction: str, part: float, outcome: Outcome) -> None:
    """Of joined graphs none can be in the batch twice, but a loss says itself what it makes of them."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        pooled = torch.zeros(16, 8).index_add_(0, batch["owner"], batch["rows"])
        return part * F.cross_entropy(model(pooled), batch["y"], reduction=reduction)

    owner = torch.arange(16).repeat_interleave(3)
    batches = [{"rows": torch.randn(48, 8), "owner": owner, "y": torch.arange(16) % 5} for _ in range(3)]
    found = ask("loss-sums-over-batch", trial_of(mlp(), batches, loss))
    assert found.outcome is outcome, found


@pytest.mark.parametrize(
    ("reduction", "part", "told"), [("sum", 1.0, True), ("sum", 1 / 8, False), ("mean", 1.0, False)]
)
def test_a_sum_over_alignments(reduction: str, part: float, told: bool) -> None:
    """Texts that lie end to end are no rows of a batch."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        said = model(batch["frames"]).log_softmax(-1).transpose(0, 1)
        widths = torch.full((8,), said.shape[0])
        return part * F.ctc_loss(said, batch["text"], widths, batch["lengths"], reduction=reduction)

    lengths = torch.arange(8) % 3 + 1
    frames = [torch.randn(8, 12, 8) for _ in range(3)]
    batches = [{"frames": x, "text": torch.randint(1, 5, (int(lengths.sum()),)), "lengths": lengths} for x in frames]
    found = ask("loss-sums-over-batch", trial_of(mlp(), batches, loss))
    assert (found.outcome is Outcome.WARN) is told, found


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


def decayed(weight: float) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return cross_entropy(model, batch) + weight * sum(p.pow(2).sum() for p in model.parameters())

    return trial_of(mlp(), classes(8), loss)


def test_a_penalty_that_drowns_the_loss() -> None:
    says(ask("penalty-outweighs-loss", decayed(10.0)), Outcome.WARN, "a penalty of", "times the gradient of the loss")
    says(ask("penalty-outweighs-loss", decayed(1e-4)), Outcome.PASS)


def own_loss(added: Callable[[nn.Module, Tensor], Any]) -> Any:
    """A mean error that the program writes by itself, with something beside it."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        error: Tensor = (out.squeeze(1) - batch[0][:, 0]).abs().mean()
        return error + added(model, out)

    return trial_of(mlp(out=1), classes(8), loss)


def squares(model: nn.Module) -> Any:
    return sum(p.pow(2).sum() for p in model.parameters())


@pytest.mark.parametrize(
    ("added", "outcome"),
    [
        (lambda model, _: 10.0 * squares(model), Outcome.WARN),
        (lambda model, _: sum(p.norm() for p in model.parameters()) * 20, Outcome.WARN),
        (lambda model, _: sum(p.abs().sum() for p in model.parameters()), Outcome.WARN),
        (lambda model, _: 1e-4 * squares(model), Outcome.PASS),
        (
            lambda model, _: -10.0 * squares(model),
            Outcome.SKIP,
        ),  # as a log-determinant, which keeps weights apart from 0
        (lambda model, _: 10.0 * (model.get_submodule("0").weight.mean() - 1).pow(2), Outcome.SKIP),
        (lambda _, out: 10.0 * out.pow(2).mean(), Outcome.SKIP),
    ],
)
def test_a_penalty_beside_a_loss_of_the_programs_own(added: Any, outcome: Outcome) -> None:
    torch.manual_seed(0)
    said = ("times the gradient of the rest",) if outcome is not Outcome.SKIP else ()
    says(ask("penalty-outweighs-loss", own_loss(added)), outcome, *said)


def test_a_term_that_knows_the_data_is_no_penalty() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        return 1e-3 * F.cross_entropy(out, batch[1]) + out.logsumexp(1).pow(2).mean()

    says(ask("penalty-outweighs-loss", trial_of(mlp(), classes(8), loss)), Outcome.PASS, "depends on the data")


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


def test_a_loss_that_is_infinite_is_no_sum() -> None:
    seen = FirstLoss([], values=[float("inf")], tiled=float("nan"), samples=32)
    assert loss_sums_over_batch.check(seen).outcome is Outcome.SKIP
