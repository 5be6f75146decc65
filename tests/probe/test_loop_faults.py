"""Loops with one fault each: gradients not cleared, cleared too early or thrown away, modes, frozen statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Asked, ask, classes, cross_entropy, examined, fails, mlp, own_loop, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import entry_does_not_run
from mlcheck.probe.measure.training.rehearsal import Rehearsal
from mlcheck.trial.trial import Trial


def test_gradients_never_cleared() -> None:
    verdict = fails("missing-zero-grad", own_loop("backward", "step"))
    assert "2 of 3 updates" in verdict.findings[0].message
    assert verdict.findings[0].location.symbol == "own_loop.step"


def test_gradients_cleared_too_early() -> None:
    trial = own_loop("backward", "zero", "step")
    fails("zero-grad-before-step", trial)
    assert "cleared before the step" in fails("parameter-never-changes", trial).findings[0].message
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS


@pytest.mark.parametrize("order", [("zero", "backward", "step"), ("backward", "step", "zero")])
def test_sound_orders_pass(order: tuple[str, ...]) -> None:
    for rule in ("missing-zero-grad", "zero-grad-before-step", "parameter-never-changes"):
        assert ask(rule, own_loop(*order)).outcome is Outcome.PASS


def asking_for_gradients(clears_first: bool, tidy: bool = False) -> Trial:
    """The evaluation measures how sensitive the loss is to the weights, by a backward pass of its own."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        if clears_first:
            optimizer.zero_grad()
        cross_entropy(model, batch).backward()
        optimizer.step()
        if not clears_first:
            optimizer.zero_grad()
        return {}

    def evaluate(batch: Any) -> dict[str, float]:
        loss = cross_entropy(model, batch)
        loss.backward()
        sensitivity = float(model[0].weight.grad.norm())
        if tidy:
            optimizer.zero_grad()
        return {"loss": float(loss.detach()), "sensitivity": sensitivity}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step, evaluate=evaluate)


def test_gradients_of_an_evaluation_that_the_next_step_goes_along() -> None:
    verdict = fails("missing-zero-grad", asking_for_gradients(clears_first=False))
    assert "evaluation leaves gradients behind" in verdict.summary
    assert "6 of 6 parameters" in verdict.summary
    assert verdict.findings[0].location.symbol == "asking_for_gradients.evaluate"


def test_gradients_of_an_evaluation_that_are_cleared_in_time() -> None:
    for trial in (asking_for_gradients(clears_first=True), asking_for_gradients(clears_first=False, tidy=True)):
        assert ask("missing-zero-grad", trial).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("frozen", "told"),
    [(True, "none of 6 parameters is trained, all are frozen"), (False, "the loss is cut off from the model")],
)
def test_a_loss_without_a_graph_is_told_with_its_reason(frozen: bool, told: str) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.requires_grad_(not frozen)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        loss = F.cross_entropy(model(batch[0]).detach(), batch[1])
        loss.backward()
        optimizer.step()
        return {}

    verdict = fails("entry-does-not-run", trial_of(model, classes(8), cross_entropy, optimizer, step=step))
    assert told in verdict.findings[0].message


def without_optimizer(clears: bool) -> Trial:
    """A loop that changes its weights by its own arithmetic."""
    model = mlp()

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        if clears:
            model.zero_grad()
        cross_entropy(model, batch).backward()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
        return {}

    trial = trial_of(model, classes(8), cross_entropy, step=step)
    trial.optimizers = {}
    return trial


def test_a_loop_without_an_optimizer_is_judged_by_what_lies_there() -> None:
    sound = Asked(without_optimizer(clears=True))
    for rule in ("missing-zero-grad", "parameter-never-changes"):
        assert sound.verdict(rule).outcome is Outcome.PASS, sound.verdict(rule)
    for rule in ("zero-grad-before-step", "gradients-clipped-away"):
        assert sound.verdict(rule).outcome is Outcome.SKIP, sound.verdict(rule)
    kept = ask("missing-zero-grad", without_optimizer(clears=False))
    assert kept.outcome is Outcome.INCONCLUSIVE
    assert "6 parameters kept the gradient of the batch before" in kept.reason


def accumulating(every: int, clear_always: bool) -> Trial:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        if clear_always or index % every == 0:
            optimizer.zero_grad()
        loss = cross_entropy(model, batch) / every
        loss.backward()
        if index % every == every - 1:
            optimizer.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


Mean = Callable[[Tensor], Tensor]


def of_squares(mean: Mean, every: int = 4) -> Trial:
    """A likelihood written by hand, whose gradients of several batches make one update."""
    model = mlp(out=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        loss = mean(0.5 * (model(batch[0]) - batch[0]).pow(2).sum(1) + 1.8)
        loss.backward()
        if index % every == every - 1:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


@pytest.mark.parametrize("mean", [lambda each: each.mean(), lambda each: -(-each).mean() + 0.1])
def test_means_written_by_hand_that_are_added_up(mean: Mean) -> None:
    says(ask("accumulation-not-averaged", of_squares(mean)), Outcome.WARN, "the gradient is 4 times that of one large")


@pytest.mark.parametrize(
    "mean",
    [
        lambda each: each.mean() / 4,
        lambda each: (each / 4).mean(),
        lambda each: 0.25 * each.mean(),
        lambda each: -(-each / 4).mean(),
        lambda each: each.sum() / (4 * len(each)),
        lambda each: (each * 0.25).mean() + 0.0,
    ],
)
def test_means_written_by_hand_that_are_divided(mean: Mean) -> None:
    verdict = ask("accumulation-not-averaged", of_squares(mean))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary
    assert ask("accumulation-not-averaged", of_squares(lambda each: each.mean(), every=1)).outcome is Outcome.SKIP


def test_a_critic_that_is_frozen_for_the_generator_and_for_good() -> None:
    models: dict[str, nn.Module] = {"generator": mlp(), "critic": nn.Sequential(nn.Linear(5, 1))}
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()}

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        fake = models["generator"](batch[0])
        loss: Tensor = models["critic"](fake.detach()).mean()
        loss.backward()
        models["critic"].requires_grad_(False)
        models["critic"](fake).mean().backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    trial = trial_of(models["generator"], classes(8), cross_entropy, step=step)
    trial.models, trial.optimizers = dict(models), dict(optimizers)
    said = ("all 2 parameters of `critic` are frozen by now", "does not require grad")
    says(ask("entry-does-not-run", trial), Outcome.FAIL, *said)


class Keeping(nn.Module):
    """Keeps what an operation on a parameter gave, or its own state, from one step to the next."""

    def __init__(self, keeps: str) -> None:
        super().__init__()
        self.keeps, self.body = keeps, nn.Linear(8, 5)
        self.scale = nn.Parameter(torch.ones(8)).exp() if keeps == "scale" else torch.ones(8)
        self.state = torch.zeros(5)

    def forward(self, x: Tensor) -> Tensor:
        output = self.body(x * self.scale) + self.state
        if self.keeps == "state":
            self.state = output.mean(0).tanh()
        return output


@pytest.mark.parametrize(
    ("keeps", "said"),
    [
        ("scale", "`scale` is no parameter but what an operation on one gave, once: nothing trains it"),
        ("state", "`state` is kept from one step to the next with its graph"),
    ],
)
def test_a_graph_that_is_kept_beyond_its_step(keeps: str, said: str) -> None:
    rehearsal = Rehearsal.measure(trial_of(Keeping(keeps), classes(8), cross_entropy), 10.0)
    says(entry_does_not_run.check(rehearsal), Outcome.FAIL, said, "backward through the graph a second time")
    says(ask("entry-does-not-run", trial_of(Keeping("nothing"), classes(8), cross_entropy)), Outcome.PASS)


@pytest.mark.parametrize(("rows", "word"), [(9, 9), (10, -1)])
def test_a_row_that_an_embedding_does_not_have(rows: int, word: int) -> None:
    words = torch.tensor([[1, 2, word], [3, 4, 8]])
    model = nn.Sequential(nn.Embedding(rows, 4), nn.Flatten(), nn.Linear(12, 5))
    trial = trial_of(model, [(words, torch.tensor([0, 1]))], cross_entropy)
    said = f"an embedding of {rows} rows is asked for row {word}: ids must be 0 to {rows - 1}"
    says(ask("entry-does-not-run", trial), Outcome.FAIL, said, "IndexError")


def test_accumulated_gradients_that_every_batch_clears() -> None:
    verdict = fails("accumulation-destroyed", accumulating(4, clear_always=True))
    assert "`optimizer` steps 3 times in 12: each update has the gradient of its last batch alone" in verdict.summary
    assert ask("accumulation-destroyed", accumulating(4, clear_always=False)).outcome is Outcome.PASS
    assert ask("accumulation-destroyed", accumulating(1, clear_always=True)).outcome is Outcome.SKIP


def test_steps_that_a_scaler_leaves_out_are_no_lost_batches() -> None:
    trial = accumulating(4, clear_always=True)
    inner = trial.train_step

    def overflowing(batch: Any, index: int) -> Any:
        return inner((batch[0] * (float("inf") if index % 4 == 0 else 1.0), batch[1]), index)

    trial.train_step = overflowing
    assert ask("accumulation-destroyed", trial).outcome is Outcome.INCONCLUSIVE


def test_a_step_that_raises_is_told_once() -> None:
    trial = accumulating(4, clear_always=False)
    sound = trial.train_step

    def step(batch: Any, index: int) -> Any:
        if index == 6:
            raise ValueError("sample 17 is torn")
        return sound(batch, index)

    trial.train_step = step
    results = examined(trial, "later-step-breaks", "missing-zero-grad")
    assert results["later-step-breaks"].outcome is Outcome.FAIL
    assert results["missing-zero-grad"].outcome is Outcome.SKIP
    told = "training step 7 raises ValueError: sample 17 is torn: see later-step-breaks"
    assert results["missing-zero-grad"].reason == told


class Tuned(nn.Module):
    """A frozen backbone with batch norm and a head that is trained."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()).requires_grad_(False)
        self.head = nn.Linear(16, 5)
        self.keeps = keeps

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        if self.keeps:
            self.backbone.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def test_running_statistics_of_a_frozen_norm_that_move() -> None:
    verdict = ask("frozen-norm-drifts", trial_of(Tuned(keeps=False), classes(8), cross_entropy))
    assert verdict.outcome is Outcome.WARN
    assert "`backbone.1` are frozen, and their running statistics move" in verdict.summary
    assert ask("frozen-norm-drifts", trial_of(Tuned(keeps=True), classes(8), cross_entropy)).outcome is Outcome.PASS
    trained = trial_of(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 5)), classes(8), cross_entropy)
    assert ask("frozen-norm-drifts", trained).outcome is Outcome.SKIP
