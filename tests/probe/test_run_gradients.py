"""What a training run does with its gradients: clipping, accumulation, schedules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from loop_programs import loop, scheduled
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import NotReached, Trial


def clipped(norm: float, optimizer: type[torch.optim.Optimizer] = torch.optim.SGD, rate: float = 0.01) -> Trial:
    model = mlp()
    opt = optimizer(model.parameters(), lr=rate)  # type: ignore[call-arg]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        opt.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
        opt.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, opt, step=step)


def test_clipping_to_nothing() -> None:
    verdict = ask("gradients-clipped-away", clipped(1e-5))
    says(verdict, Outcome.WARN, "in 100 % of 120 updates", "norm 1e-05")


@pytest.mark.parametrize(
    ("norm", "optimizer"), [(0.1, torch.optim.SGD), (100.0, torch.optim.SGD), (1e-4, torch.optim.Adam)]
)
def test_clipping_that_leaves_something_passes(norm: float, optimizer: type[torch.optim.Optimizer]) -> None:
    says(ask("gradients-clipped-away", clipped(norm, optimizer)), Outcome.PASS)


@pytest.mark.parametrize(("rate", "outcome"), [(0.1, Outcome.WARN), (50.0, Outcome.PASS)])
def test_clipping_by_less_that_leaves_the_model_where_it_is(rate: float, outcome: Outcome) -> None:
    says(ask("gradients-clipped-away", clipped(2e-3, rate=rate)), outcome)


def test_a_gradient_scaler_is_no_clipping() -> None:
    says(ask("gradients-clipped-away", loop(share=65536.0, divide=65536.0)), Outcome.PASS)


def test_an_epoch_schedule_stepped_every_batch() -> None:
    trial = scheduled(lambda opt: torch.optim.lr_scheduler.StepLR(opt, step_size=10, gamma=0.1))
    says(ask("learning-rate-dies", trial), Outcome.WARN, "falls from 0.05 to 5e-07 within 50 steps")


def scheduled_for(steps: int, run: int) -> Trial:
    """A schedule that falls to nothing over `steps` steps, in a program that ends by itself after `run`."""
    trial = scheduled(lambda opt: torch.optim.lr_scheduler.PolynomialLR(opt, steps))
    plain = trial.train_step

    def step(batch: Any, index: int) -> Any:
        if index == run:
            raise NotReached("it ended")
        return plain(batch, index) if index < steps else None

    trial.train_step = step
    return trial


@pytest.mark.parametrize(("steps", "run", "outcome"), [(60, 60, "PASS"), (120, 500, "PASS"), (60, 90, "WARN")])
def test_a_schedule_that_ends_with_its_run(steps: int, run: int, outcome: str) -> None:
    says(ask("learning-rate-dies", scheduled_for(steps, run)), Outcome[outcome])


@pytest.mark.parametrize(("total", "outcome"), [(60, Outcome.PASS), (15, Outcome.FAIL), (50, Outcome.FAIL)])
def test_one_cycle_over_whole_epochs_is_as_long_as_its_run(total: int, outcome: Outcome) -> None:
    """One of epochs that is stepped at every batch is not, and what it raises then is told."""
    trial = scheduled(lambda opt: torch.optim.lr_scheduler.OneCycleLR(opt, 0.05, total_steps=total))
    trial.loaders = {"training": range(15)}
    assert ask("later-step-breaks", trial).outcome is outcome
    if outcome is Outcome.PASS:
        assert ask("learning-rate-dies", trial).outcome is outcome


def waiting(mode: Literal["min", "max"], metric: str) -> Trial:
    """A schedule that is stepped with a metric of the training step."""
    trial = loop(0.05)
    optimizer, plain = trial.optimizers["optimizer"], trial.train_step
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, patience=500)

    def step(batch: Any, index: int) -> Any:
        value = float(plain(batch, index)["loss"])
        schedule.step(value)
        return {metric: value, "rows": len(batch[0])}

    trial.train_step, trial.schedulers = step, {"schedule": schedule}
    return trial


def test_a_schedule_that_waits_for_a_loss_to_rise() -> None:
    verdict = ask("learning-rate-dies", waiting("max", "val_loss"))
    says(verdict, Outcome.FAIL, "waits for a larger `val_loss` (mode='max')")
    assert verdict.findings[0].location.path.endswith("test_run_gradients.py")
    says(ask("learning-rate-dies", waiting("min", "accuracy")), Outcome.FAIL, "waits for a smaller `accuracy`")


def test_a_schedule_that_only_the_program_s_own_object_holds() -> None:
    trial = waiting("min", "accuracy")
    trial.objects, trial.schedulers = (SimpleNamespace(plateau=trial.schedulers["schedule"]),), {}
    says(ask("learning-rate-dies", trial), Outcome.FAIL, "waits for a smaller `accuracy`")


@pytest.mark.parametrize(
    ("mode", "metric"), [("min", "val_loss"), ("max", "accuracy"), ("max", "score"), ("max", "error in accuracy")]
)
def test_schedules_that_wait_for_what_is_better_or_for_what_nobody_knows(
    mode: Literal["min", "max"], metric: str
) -> None:
    assert ask("learning-rate-dies", waiting(mode, metric)).outcome is Outcome.PASS


def test_a_schedule_that_waits_for_what_was_made_of_a_loss() -> None:
    trial = waiting("max", "val_loss")
    step = trial.train_step
    trial.train_step = lambda batch, index: {"val_loss": -1.0 - step(batch, index)["val_loss"]}
    assert ask("learning-rate-dies", trial).outcome is Outcome.PASS


def test_a_schedule_over_the_run_passes() -> None:
    trial = scheduled(lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=1000))
    says(ask("learning-rate-dies", trial), Outcome.PASS, "between")
    warm = scheduled(lambda opt: torch.optim.lr_scheduler.LinearLR(opt, 1e-5, 1.0, total_iters=100))
    says(ask("learning-rate-dies", warm), Outcome.PASS)


def test_gradients_of_four_batches_added_up() -> None:
    says(ask("accumulation-not-averaged", loop(every=4)), Outcome.WARN, "4 batches make one update", "4 times")
    says(ask("accumulation-not-averaged", loop(every=4, share=0.25)), Outcome.PASS, "enters with 0.25")
    assert ask("accumulation-not-averaged", loop()).outcome is Outcome.SKIP
    divided_by_two = ask("accumulation-not-averaged", loop(every=8, share=0.5))
    says(divided_by_two, Outcome.WARN, "enters with weight 0.5", "4 times that of one large batch")


def in_parts(weight: float, divide: float = 1.0, reduction: str = "mean") -> Trial:
    """One update from a batch that is divided into four."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        for x, y in zip(batch[0].chunk(4), batch[1].chunk(4)):
            loss = F.cross_entropy(model(x), y, reduction=reduction) * weight
            loss.backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= divide
        optimizer.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


def test_parts_of_one_batch_added_up() -> None:
    says(ask("accumulation-not-averaged", in_parts(1.0)), Outcome.WARN, "4 parts of a batch make one update", "4 times")
    says(ask("accumulation-not-averaged", in_parts(0.25)), Outcome.PASS, "each enters with its share")
    says(ask("accumulation-not-averaged", in_parts(1.0, divide=4.0)), Outcome.PASS)
    assert ask("accumulation-not-averaged", in_parts(1.0, reduction="sum")).outcome is Outcome.SKIP


def test_gradients_divided_before_the_step_are_averaged() -> None:
    verdict = ask("accumulation-not-averaged", loop(every=4, divide=4.0))
    says(verdict, Outcome.PASS, "their sum is divided by 4")


class Around(torch.optim.Optimizer):
    """Climbs first, looks at the gradient there, and lets another optimizer step from where it was (SAM)."""

    def __init__(self, base: torch.optim.Optimizer) -> None:
        super().__init__(base.param_groups, {})
        self.base, self.param_groups = base, base.param_groups

    @torch.no_grad()
    def climb(self) -> None:
        self.shifts = [(p, 0.01 * p.grad) for group in self.param_groups for p in group["params"]]
        for parameter, shift in self.shifts:
            parameter.add_(shift)
        self.zero_grad()

    @torch.no_grad()
    def step(self, _closure: Any = None) -> None:
        for parameter, shift in self.shifts:
            parameter.sub_(shift)
        self.base.step()


def test_an_optimizer_that_steps_within_another_s_step() -> None:
    model = mlp()
    optimizer = Around(torch.optim.SGD(model.parameters(), lr=0.1))

    def step(batch: Any, _: int) -> None:
        cross_entropy(model, batch).backward()
        optimizer.climb()
        cross_entropy(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    trial = trial_of(model, classes(8), cross_entropy, optimizer.base, step=step)
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS
    assert ask("parameter-never-changes", trial).outcome is Outcome.PASS
