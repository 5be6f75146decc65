"""Dropout that a program writes itself and does not switch off, and modes that its own `F.dropout` goes by."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def paths(x: Tensor) -> Tensor:
    return torch.rand(len(x), 1)


FORMS: dict[str, Any] = {
    "divided after": lambda h: h * (paths(h) >= 0.4) / 0.6,
    "divided before": lambda h: h.div(0.6) * torch.floor(0.6 + paths(h)),
    "a scaled mask": lambda h: h * h.new_empty(h.shape).bernoulli_(0.6).div_(0.6),
    "times its inverse": lambda h: (torch.rand_like(h) < 0.5).float() * h * 2,
}


def program(change: Any, always: bool = True) -> Trial:
    def forward(layers: Any, x: Tensor) -> Tensor:
        h = layers["first"](x)
        return layers["last"](change(h) if always or model.training else h)

    model = Function(forward, first=nn.Linear(8, 32), last=nn.Linear(32, 5))
    return trial_of(model, classes(8), cross_entropy)


@pytest.mark.parametrize("form", FORMS)
def test_dropout_by_hand_in_evaluation(form: str) -> None:
    verdict = ask("random-evaluation", program(FORMS[form]))
    says(verdict, Outcome.FAIL, "dropout written by hand drops values in evaluation")
    assert verdict.findings[0].location.path.endswith("test_written_dropout.py")
    says(ask("random-evaluation", program(FORMS[form], always=False)), Outcome.PASS)


HIDING: dict[str, Any] = {
    "zeros and ones": lambda h: h * (torch.rand_like(h) > 0.5),
    "scaled by something else": lambda h: 3 * h * (torch.rand_like(h) > 0.1),
}
ADDING: dict[str, Any] = {
    "noise": lambda h: h + 0.1 * torch.randn_like(h),
    "noise in place": lambda h: h.clone().add_(torch.rand_like(h).mul(0.2)),
}
SAMPLED: dict[str, Any] = {
    "a choice": lambda h: torch.where(torch.rand_like(h) > 0.5, h, 0.0),
    "of a learnt size": lambda h: h + h.abs() * torch.randn_like(h),
}


@pytest.mark.parametrize("form", [*HIDING, *ADDING])
def test_a_classifier_that_is_disturbed_in_evaluation(form: str) -> None:
    change = {**HIDING, **ADDING}[form]
    said = "sets values to 0 at random" if form in HIDING else "adds random numbers"
    says(ask("random-evaluation", program(change)), Outcome.WARN, said, "in evaluation too")
    says(ask("random-evaluation", program(change, always=False)), Outcome.PASS)


REGRESSIONS: list[Any] = [F.mse_loss, lambda said, wanted: (said - wanted).cosh().log().mean()]


@pytest.mark.parametrize("loss", REGRESSIONS)
def test_a_regression_that_is_disturbed_in_evaluation(loss: Any) -> None:
    def said(model: Any, batch: Any) -> Tensor:
        answer: Tensor = loss(model(batch[0])[:, 0], batch[1])
        return answer

    for form, outcome in ((ADDING["noise"], Outcome.WARN), (SAMPLED["of a learnt size"], Outcome.INCONCLUSIVE)):
        batches = [(x, x.sum(1)) for x, _ in classes(8)]
        again = trial_of(program(form).models["model"], batches, said)
        assert ask("random-evaluation", again).outcome is outcome


@pytest.mark.parametrize("form", SAMPLED)
def test_what_a_classifier_samples_is_left_open(form: str) -> None:
    verdict = ask("random-evaluation", program(SAMPLED[form]))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary


@pytest.mark.parametrize("form", [*HIDING, *ADDING])
def test_what_is_hidden_to_be_filled_in_is_left_open(form: str) -> None:
    """Masked and denoising autoencoders hide, or disturb, a part of their input in evaluation on purpose."""
    trial = program({**HIDING, **ADDING}[form])
    batches = [(x, x[:, :5]) for x, _ in classes(8)]

    def rebuilt(model: Any, batch: Any) -> Tensor:
        return (model(batch[0]) - batch[1]).square().mean()

    again = trial_of(trial.models["model"], batches, rebuilt)
    assert ask("random-evaluation", again).outcome is Outcome.INCONCLUSIVE


def test_an_evaluation_under_noise_on_purpose() -> None:
    trial = program(lambda h: h)
    model = trial.models["model"]

    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        noisy = batch[0] + 0.1 * torch.randn_like(batch[0])
        return {"val_loss": F.cross_entropy(model(noisy), batch[1]).item()}

    trial.evaluate_step = evaluate
    assert ask("random-evaluation", trial).outcome is Outcome.INCONCLUSIVE


class Dropping(nn.Module):
    def __init__(self, rate: float = 0.3) -> None:
        super().__init__()
        self.net, self.rate = mlp(), rate

    def forward(self, x: Tensor) -> Tensor:
        return self.net(F.dropout(x, self.rate, training=self.training))


def looking_in_between(again: bool, rate: float = 0.3) -> Trial:
    """Every step ends with a look at what the model says, which leaves it in evaluation mode."""
    model = Dropping(rate)
    optimizer = torch.optim.Adam(model.parameters())
    model.train()

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        if again:
            model.train()
        loss = cross_entropy(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(batch[0])
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step)


def test_a_look_between_two_steps_that_ends_training_mode() -> None:
    says(
        ask("train-not-restored", looking_in_between(again=False)), Outcome.FAIL, "`Dropping` is trained in evaluation"
    )
    says(ask("train-not-restored", looking_in_between(again=True)), Outcome.PASS)
    assert ask("train-not-restored", looking_in_between(again=False, rate=0.0)).outcome is Outcome.SKIP


class Observed(nn.Module):
    """Scales by what it has seen: while training, or whenever it is called."""

    def __init__(self, always: bool, used: bool = True) -> None:
        super().__init__()
        self.net, self.always, self.used = mlp(), always, used
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        if self.training or self.always:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return self.net(x - self.mean if self.used else x)


def test_an_evaluation_after_which_the_model_answers_otherwise() -> None:
    moving = ask("missing-eval-mode", trial_of(Observed(always=True), classes(8), cross_entropy))
    says(moving, Outcome.WARN, "evaluating changed `mean`, and the model answers otherwise since")
    for model in (Observed(always=False), Observed(always=True, used=False)):
        says(ask("missing-eval-mode", trial_of(model, classes(8), cross_entropy)), Outcome.PASS)


@pytest.mark.parametrize(("times", "outcome"), [(1, Outcome.FAIL), (8, Outcome.INCONCLUSIVE)])
@pytest.mark.parametrize("functional", [False, True])
def test_dropout_that_is_drawn_several_times_for_one_answer(functional: bool, times: int, outcome: Outcome) -> None:
    if functional:
        model: nn.Module = Function(lambda layers, x: layers["net"](F.dropout(x, 0.3)), net=mlp())
    else:
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 5))

    def evaluate(batch: Any) -> dict[str, float]:
        model.train(not functional)
        with torch.no_grad():
            said = torch.stack([model(batch[0]) for _ in range(times)])
        return {"val_loss": float(F.cross_entropy(said.mean(0), batch[1]))}

    trial = trial_of(model, classes(8), cross_entropy, evaluate=evaluate)
    rule = "random-evaluation" if functional else "missing-eval-mode"
    assert ask(rule, trial).outcome is outcome
