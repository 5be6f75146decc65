"""The schedule over the planned run: faults of length, and the schedules that only look like one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import Asked, ask, classes, cross_entropy, mlp, says, trial_of, trial_on
from torch.optim import lr_scheduler as schedules
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.schedule_calls import Rhythm, _rhythm
from mlcheck.trial.planned import Planned, planned_by, planned_in
from mlcheck.trial.trial import Trial

RULE = "schedule-misfits-run"
EPOCH = 10
Make = Callable[[torch.optim.Optimizer], Any]


def scheduled(make: Make, epochs: int = 30, per_batch: bool = True, length: int = EPOCH, **called: Any) -> Trial:
    """A loop that steps its schedule after every batch; or after the last of each epoch, as frameworks do."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = classes(8, batches=1) * length
    scheduler = make(optimizer)

    def step(batch: Any, index: int) -> dict[str, float]:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        if per_batch or (index + 1) % length == 0:
            scheduler.step(**called)
        return {"loss": loss.item()}

    trial = trial_of(model, batches, cross_entropy, optimizer, step)
    trial.schedulers = {"scheduler": scheduler}
    trial.loaders = {"training": DataLoader(range(length))}  # type: ignore[arg-type]
    trial.planned = Planned(epochs, "epochs", "--epochs")
    return trial


def asked(*arguments: Any, **options: Any) -> Verdict:
    return Asked(scheduled(*arguments, **options)).verdict(RULE)


FAULTS: dict[str, tuple[Make, dict[str, Any], Outcome, str]] = {
    "one cycle, too short": (
        lambda o: schedules.OneCycleLR(o, 0.1, total_steps=200),
        {},
        Outcome.FAIL,
        "step 201 of OneCycleLR raises ValueError",
    ),
    "cosine of epochs, stepped by batch": (
        lambda o: schedules.CosineAnnealingLR(o, T_max=30),
        {},
        Outcome.WARN,
        "at its end (0) at epoch 3.0 of 30 and rises again, to 0.1",
    ),
    "cosine of batches, stepped by epoch": (
        lambda o: schedules.CosineAnnealingLR(o, T_max=300),
        {"per_batch": False},
        Outcome.WARN,
        "come down only to 98 % of its peak",
    ),
    "exponential of epochs, stepped by batch": (
        lambda o: schedules.ExponentialLR(o, 0.9),
        {},
        Outcome.WARN,
        "from epoch 8.",
    ),
    "a function that returns the rate": (
        lambda o: schedules.LambdaLR(o, lambda k: 0.1 * min(1.0, (k + 1) / 20)),
        {},
        Outcome.WARN,
        "never exceeds 0.01, the square of the optimizer's 0.1",
    ),
    "warm-up of batches, stepped by epoch": (
        lambda o: schedules.LinearLR(o, 0.01, total_iters=500),
        {"per_batch": False},
        Outcome.WARN,
        "still on its way up at the end of the run",
    ),
    "milestones of batches, stepped by epoch": (
        lambda o: schedules.MultiStepLR(o, [150, 250]),
        {"per_batch": False},
        Outcome.WARN,
        "MultiStepLR never lowers",
    ),
    "warm-up and a cosine that ends at once": (
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.1, total_iters=20), schedules.CosineAnnealingLR(o, 40)], [20]
        ),
        {},
        Outcome.WARN,
        "rises again",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_schedule_of_another_length(fault: str) -> None:
    make, options, outcome, words = FAULTS[fault]
    verdict = asked(make, **options)
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
    assert words in verdict.findings[0].message


def warmed_cosine(optimizer: torch.optim.Optimizer) -> Any:
    parts = [schedules.LinearLR(optimizer, 0.01, total_iters=30), schedules.CosineAnnealingLR(optimizer, 270)]
    return schedules.SequentialLR(optimizer, parts, [30])


SOUND: dict[str, tuple[Make, dict[str, Any]]] = {
    "constant": (lambda o: schedules.LambdaLR(o, lambda _: 1.0), {}),
    "a small constant factor": (lambda o: schedules.LambdaLR(o, lambda _: 0.05), {}),
    "tenths of it": (lambda o: schedules.ConstantLR(o, 0.1, total_iters=1000), {}),
    "cosine by batch": (lambda o: schedules.CosineAnnealingLR(o, 300), {}),
    "cosine by epoch": (lambda o: schedules.CosineAnnealingLR(o, 30), {"per_batch": False}),
    "cosine, one step short": (lambda o: schedules.CosineAnnealingLR(o, 29), {"per_batch": False}),
    "cosine to a floor": (lambda o: schedules.CosineAnnealingLR(o, 30, eta_min=0.06), {"per_batch": False}),
    "one cycle": (lambda o: schedules.OneCycleLR(o, 0.1, total_steps=300), {}),
    "one cycle by epoch and loader": (lambda o: schedules.OneCycleLR(o, 0.1, epochs=30, steps_per_epoch=EPOCH), {}),
    "warm restarts": (lambda o: schedules.CosineAnnealingWarmRestarts(o, 50), {}),
    "cyclic": (lambda o: schedules.CyclicLR(o, 0.001, 0.1, step_size_up=40), {}),
    "warm-up and cosine": (warmed_cosine, {}),
    "steps": (lambda o: schedules.StepLR(o, 10), {"per_batch": False}),
    "slow decay": (lambda o: schedules.ExponentialLR(o, 0.98), {"per_batch": False}),
    "warm-up, then constant": (lambda o: schedules.LinearLR(o, 0.01, total_iters=30), {}),
    "polynomial": (lambda o: schedules.PolynomialLR(o, 300, power=0.9), {}),
    "inverse root": (lambda o: schedules.LambdaLR(o, lambda k: min((k + 1) ** -0.5, (k + 1) * 40**-1.5)), {}),
}


def test_the_step_after_the_last_batch_counts_where_it_raises() -> None:
    assert asked(lambda o: schedules.OneCycleLR(o, 0.1, total_steps=299)).outcome is Outcome.FAIL
    assert asked(lambda o: schedules.OneCycleLR(o, 0.1, total_steps=300)).outcome is Outcome.PASS


@pytest.mark.parametrize("name", SOUND)
def test_a_schedule_of_the_run_s_length_passes(name: str) -> None:
    make, options = SOUND[name]
    verdict = asked(make, **options)
    assert verdict.outcome is Outcome.PASS, verdict.summary
    assert verdict.figures[0].data["x_label"] == "epoch"


def test_the_same_cosine_is_fine_for_a_run_of_its_length() -> None:
    def make(optimizer: torch.optim.Optimizer) -> Any:
        return schedules.CosineAnnealingLR(optimizer, 100)

    assert asked(make, epochs=10).outcome is Outcome.PASS
    assert asked(make, epochs=30).outcome is Outcome.WARN


def test_a_far_epoch_s_end_is_asked_for_by_its_number() -> None:
    verdict = asked(lambda o: schedules.StepLR(o, 10), per_batch=False, length=5000)
    assert verdict.outcome is Outcome.PASS
    assert "stepped once an epoch" in verdict.summary


def test_what_is_never_stepped_is_no_fault_of_the_schedule_s() -> None:
    trial = scheduled(lambda o: schedules.MultiStepLR(o, [150]), per_batch=False)
    plain = trial.train_step
    trial.train_step = lambda batch, _: plain(batch, 0)  # a loop that ends no epoch
    verdict = Asked(trial).verdict(RULE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "once an epoch" in verdict.reason


@pytest.mark.parametrize(
    ("make", "options", "outcome", "words"),
    [
        (lambda o: schedules.ReduceLROnPlateau(o), {"metrics": 1.0}, Outcome.SKIP, "follows the validation metric"),
        (lambda o: schedules.StepLR(o, 3), {"epoch": 3}, Outcome.INCONCLUSIVE, "with an argument"),
        (lambda o: schedules.StepLR(o, 3), {"length": 2}, Outcome.INCONCLUSIVE, "too short"),
    ],
    ids=["plateau", "by argument", "tiny epoch"],
)
def test_what_cannot_be_planned_says_so(make: Make, options: dict[str, Any], outcome: Outcome, words: str) -> None:
    verdict = asked(make, **options)
    assert verdict.outcome is outcome
    assert words in verdict.reason


def test_without_a_plan_there_is_nothing_to_judge() -> None:
    trial = scheduled(lambda o: schedules.CosineAnnealingLR(o, 5))
    trial.planned = None
    verdict = Asked(trial).verdict(RULE)
    assert verdict.outcome is Outcome.SKIP
    assert "--epochs" in verdict.reason
    trial.objects = ({"args": Namespace(epochs=30)},)
    assert "the argument `epochs`" in Asked(trial).verdict(RULE).findings[0].message


def test_the_schedule_is_where_it_was() -> None:
    trial = scheduled(warmed_cosine)
    before = dict(trial.schedulers["scheduler"].state_dict())
    rate = trial.optimizers["optimizer"].param_groups[0]["lr"]
    Asked(trial).verdict(RULE)
    assert trial.optimizers["optimizer"].param_groups[0]["lr"] == rate
    assert trial.schedulers["scheduler"].state_dict()["last_epoch"] == before["last_epoch"]
    assert "step" not in vars(trial.schedulers["scheduler"])


@pytest.mark.parametrize(
    ("seen", "rhythm"),
    [
        ([1, 2, 3, 4, 5, 6], Rhythm(1, 1, 0)),
        ([0, 1, 1, 2, 2, 3], Rhythm(1, 2, 0)),
        ([0, 4, 4, 8, 8, 12], Rhythm(4, 2, 0)),
        ([0, 0, 0, 0, 1, 1], Rhythm(0, 1, 1)),
        ([1, 2, 3, 4, 6, 7], Rhythm(1, 1, 1)),
        ([0, 0, 0, 0, 0, 0], Rhythm(0, 1, 1, supposed=True)),
    ],
)
def test_rhythms(seen: list[int], rhythm: Rhythm) -> None:
    assert _rhythm(seen, 4, 6) == rhythm


@pytest.mark.parametrize(
    ("config", "hyperparameters", "planned"),
    [
        ({"searcher": {"max_length": {"epochs": 20}}}, {}, Planned(20, "epochs", "the config's max_length")),
        (
            {"searcher": {"max_length": {"batches": 900}}},
            {"epochs": 3},
            Planned(900, "batches", "the config's max_length"),
        ),
        (
            {"searcher": {"max_length": {"records": 640}}, "records_per_epoch": 64},
            {},
            Planned(10, "epochs", "the config's max_length"),
        ),
        (
            {"searcher": {"max_length": {"epochs": 20}}, "records_per_epoch": 64},
            {},
            Planned(20, "epochs", "the config's max_length", 64),
        ),
        ({"searcher": {"max_length": {"records": 640}}}, {}, None),
        ({"searcher": None}, {"num_epochs": 7}, Planned(7, "epochs", "the hyperparameter `num_epochs`")),
        (None, {"warmup_epochs": 7, "epochs": "7"}, None),
        (None, {"epochs": True}, None),
    ],
)
def test_what_says_how_long_the_run_is(config: Any, hyperparameters: dict[str, Any], planned: Planned | None) -> None:
    assert planned_by(config, hyperparameters) == planned


def test_variables_that_disagree_say_nothing() -> None:
    assert planned_in([{"EPOCHS": 5}, {"x": 1}]) == Planned(5, "epochs", "the variable `EPOCHS`")
    assert planned_in([{"EPOCHS": 5}, {"epochs": 6}]) is None


@pytest.mark.parametrize(
    ("records", "outcome"), [(96, Outcome.PASS), (100, Outcome.PASS), (960, Outcome.WARN), (50, Outcome.WARN)]
)
def test_an_epoch_of_the_config_is_a_pass_over_the_data(records: int, outcome: Outcome) -> None:
    data = TensorDataset(torch.randn(100, 8), torch.randint(5, (100,)))
    trial = trial_on(data)
    assert ask("records-per-epoch-wrong", trial).outcome is Outcome.SKIP
    trial.planned = Planned(20, "epochs", "the config's max_length", records)
    says(ask("records-per-epoch-wrong", trial), outcome, f"records_per_epoch is {records}")


def test_a_rate_of_zero_is_no_square() -> None:
    trial = scheduled(lambda o: schedules.LambdaLR(o, lambda k: 1 - k / 300))
    for group in trial.optimizers["optimizer"].param_groups:
        group["lr"] = group["initial_lr"] = 0.0
    trial.schedulers["scheduler"].base_lrs = [0.0]
    assert Asked(trial).verdict(RULE).outcome is Outcome.PASS
