"""Learning rates that are too high or too low, by a short run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_programs import loop, scheduled
from probe_programs import Asked, ask, classes, cross_entropy, mlp, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import learning_rate_too_high, learning_rate_too_low
from mlcheck.probe.measure.loss.first_loss import FirstLoss, LossFact
from mlcheck.probe.measure.loss.floors import Floors
from mlcheck.probe.measure.training.memorising import Curve
from mlcheck.probe.measure.training.overfit import Overfit
from mlcheck.probe.measure.training.rate_trials import RateTrial, RateTrials


@pytest.mark.parametrize("rate", [1e4, 30.0])
def test_a_learning_rate_that_diverges(rate: float) -> None:
    says(ask("learning-rate-too-high", loop(rate)), Outcome.FAIL, f"at your learning rate ({rate:g})")


def test_the_rate_that_was_seen_to_be_better_is_advised() -> None:
    falls, grows = tuple(1.0 - 0.02 * step for step in range(40)), tuple(10.0**step for step in range(12))
    trials = RateTrial(1.0, grows, diverged=True), RateTrial(0.01, falls, diverged=False)
    (finding,) = learning_rate_too_high.check(RateTrials(50.0, 12, trials, warms_up=False), None, None).findings
    assert finding.help == "lower it to about 0.5, or warm it up"


def test_a_rate_that_diverges_under_a_schedule_is_too_high_unless_it_is_warmed_up_to() -> None:
    falling = scheduled(lambda opt: torch.optim.lr_scheduler.StepLR(opt, step_size=100), rate=30.0)
    says(ask("learning-rate-too-high", falling), Outcome.FAIL, "at your learning rate (30)")
    warm = scheduled(lambda opt: torch.optim.lr_scheduler.LinearLR(opt, 1e-3, 1.0, total_iters=100), rate=30.0)
    assert ask("learning-rate-too-high", warm).outcome is Outcome.INCONCLUSIVE


def test_a_closure_that_is_called_ever_more_often_is_no_rising_loss() -> None:
    trial = loop(1.0)
    model, optimizer = trial.models["model"], trial.optimizers["optimizer"]

    def step(batch: Any, index: int) -> Any:
        searching = optimizer.param_groups[0]["lr"] >= 1.0
        for _ in range(1 + index // 5 if searching else 1):
            optimizer.zero_grad()
            cross_entropy(model, batch).backward()
        optimizer.step()
        return {}

    trial.train_step = step
    assert ask("learning-rate-too-high", trial).outcome is not Outcome.FAIL


@pytest.mark.parametrize("rate", [1e-5, 1e-7])
def test_a_learning_rate_that_hardly_moves(rate: float) -> None:
    asked = Asked(loop(rate))
    says(asked.verdict("learning-rate-too-low"), Outcome.WARN, "hardly moves the model")
    says(asked.verdict("learning-rate-too-high"), Outcome.PASS)


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_common_learning_rates_pass(rate: float) -> None:
    asked = Asked(loop(rate))
    for rule in ("learning-rate-too-high", "learning-rate-too-low"):
        assert asked.verdict(rule).outcome is Outcome.PASS, asked.verdict(rule).summary


@pytest.mark.parametrize(("better", "outcome"), [(10.0, Outcome.PASS), (100.0, Outcome.WARN)])
def test_a_plateau_that_ten_times_the_rate_leaves_sooner(better: float, outcome: Outcome) -> None:
    flat, falling = tuple([2.3] * 40), tuple(2.3 - 0.02 * step for step in range(40))
    trials = [
        RateTrial(factor, falling if factor == better else flat, diverged=False) for factor in (0.01, 1.0, better)
    ]
    assert learning_rate_too_low.check(RateTrials(0.05, 40, tuple(trials), warms_up=False)).outcome is outcome


def test_weights_that_move_have_no_rate_that_is_too_low() -> None:
    """As of a sound run over thousands of steps, of which forty tell little: Adam at its usual rate."""
    flat, falling = tuple([2.3] * 40), tuple(2.3 - 0.02 * step for step in range(40))

    def seen(moved: float) -> RateTrials:
        trials = [RateTrial(0.01, flat, diverged=False), RateTrial(1.0, flat, diverged=False, moved=moved)]
        return RateTrials(1e-3, 40, (*trials, RateTrial(100.0, falling, diverged=False)), warms_up=False)

    assert learning_rate_too_low.check(seen(0.001)).outcome is Outcome.WARN
    says(learning_rate_too_low.check(seen(0.15)), Outcome.PASS, "the weights moved by 15 % of their length")


def test_how_far_weights_moved_is_measured_where_they_moved() -> None:
    table = nn.Embedding(1000, 4)
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3)
    batches = [(torch.tensor([1, 2]), torch.zeros(2, 4))] * 4
    trial = trial_of(table, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]), optimizer)
    mine = RateTrials.measure(trial, 60.0).of(1.0)
    assert 0.02 < mine.moved < 0.08


def test_a_gan_has_no_rate_to_judge() -> None:
    says(ask("learning-rate-too-high", SOUND["gan"]()), Outcome.INCONCLUSIVE, "several optimizers take turns")


@pytest.mark.parametrize(("rate", "outcome"), [(1e-2, Outcome.PASS), (100.0, Outcome.FAIL)])
def test_optimizers_of_an_encoder_and_a_decoder_that_step_together_have_one_loss(rate: float, outcome: Outcome) -> None:
    model = mlp()
    parts = {"encoder": model[:2], "decoder": model[2:]}
    optimizers = {name: torch.optim.SGD(part.parameters(), lr=rate) for name, part in parts.items()}

    def step(batch: Any, _: int) -> dict[str, float]:
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return {"loss": loss.item()}

    trial = trial_of(model, classes(8), cross_entropy, step=step)
    trial.optimizers = dict(optimizers)
    asked = Asked(trial)
    assert asked.verdict("learning-rate-too-high").outcome is outcome
    assert "take turns" not in asked.verdict("cannot-overfit-one-batch").reason


HUMP = [0.16 + 0.04 * index for index in range(22)] + [1.0 * 0.93**index for index in range(18)]
PLATEAU = [0.68, 11.0, 45.0, 93.0, 13.0, *(2.5 * 0.9**index for index in range(10)), *(0.85,) * 25]
FAR_OFF = [0.16, *(500.0 * 0.92**index for index in range(39))]


@pytest.mark.parametrize(
    ("losses", "outcome"), [(HUMP, Outcome.INCONCLUSIVE), (PLATEAU, Outcome.FAIL), (FAR_OFF, Outcome.FAIL)]
)
def test_a_loss_that_has_passed_its_peak_is_not_at_its_end(losses: list[float], outcome: Outcome) -> None:
    lower = RateTrial(0.1, tuple(0.16 - 0.001 * index for index in range(40)), diverged=False)
    seen = RateTrials(0.003, 40, (RateTrial(1.0, tuple(losses), diverged=False), lower), warms_up=False)
    verdict = learning_rate_too_high.check(seen, None, None)
    assert verdict.outcome is outcome, verdict


@pytest.mark.parametrize(
    ("end", "better", "more", "outcome"),
    [
        (4.8, 0.9, 0.0, Outcome.WARN),
        (2.0, 0.9, 0.0, Outcome.PASS),  # better than a guess
        (4.8, 2.1, 0.0, Outcome.PASS),  # the other rate learns little more
        (4.8, 0.9, 3.0, Outcome.PASS),  # another term is in the loss
    ],
)
def test_a_rate_that_ends_above_a_guess(end: float, better: float, more: float, outcome: Outcome) -> None:
    """The first weights cost so much that the loss has fallen far, and still nothing is learnt."""
    mine, lower = (tuple([12.0, 10.0] + [value] * 38) for value in (end, better))
    trials = (RateTrial(1.0, mine, diverged=False), RateTrial(0.1, lower, diverged=False))
    seen = RateTrials(8.0, 40, trials, warms_up=False)
    loss = LossFact("cross_entropy", Location(), "", (8, 10), (8,), 12.0, 2.303, None, 1.0, False, 0, 9, 0.0)
    verdict = learning_rate_too_high.check(seen, None, FirstLoss([loss], values=[11.0 + more, 13.0 + more]))
    assert verdict.outcome is outcome, verdict


def test_a_logarithm_of_zero_is_no_divergence() -> None:
    """The loss saturates and is no number; with one weight more than it can bear it grows first."""
    targets = (torch.rand(12, 32, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    batches = [(x, target) for (x, _), target in zip(classes(8), targets)]
    model = nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))

    def by_hand(net: nn.Module, batch: Any) -> Tensor:
        chance = torch.sigmoid(40 * net(batch[0]))
        return -(batch[1] * chance.log() + (1 - batch[1]) * (1 - chance).log()).mean()

    def trial() -> Any:
        return trial_of(model, batches, by_hand, torch.optim.Adam(model.parameters(), lr=0.05))

    says(ask("learning-rate-too-high", trial()), Outcome.INCONCLUSIVE, "suddenly no number")
    assert ask("non-finite-gradient", trial()).outcome is Outcome.FAIL


def memorised(rate: float, schedule: bool = False, adam: type[torch.optim.Optimizer] = torch.optim.AdamW) -> Overfit:
    slow = Curve("your optimizer", (1.42, *(1.21,) * 299), rate)
    fast = Curve("Adam 0.001", tuple(1.42 * 0.95**step for step in range(60)), 1e-3)
    floors, comparable = Floors(1.38, 0.0), adam in (torch.optim.Adam, torch.optim.AdamW)
    return Overfit(
        16, "cross_entropy", Location(), floors, True, 1, slow, (fast,), scheduled=schedule, comparable=comparable
    )


@pytest.mark.parametrize(
    ("learnt", "outcome"),
    [
        (memorised(0.1), Outcome.WARN),
        (memorised(0.1, schedule=True), Outcome.PASS),
        (memorised(3e-3), Outcome.PASS),
        (memorised(0.1, adam=torch.optim.SGD), Outcome.PASS),
    ],
)
def test_a_rate_of_adam_at_which_one_batch_is_not_learnt(learnt: Overfit, outcome: Outcome) -> None:
    alike = [RateTrial(factor, tuple([1.36] * 40), diverged=False) for factor in (1.0, 0.1)]
    seen = RateTrials(learnt.mine.learning_rate, 40, tuple(alike), warms_up=False)
    verdict = learning_rate_too_high.check(seen, None, None, learnt)
    assert verdict.outcome is outcome, verdict
