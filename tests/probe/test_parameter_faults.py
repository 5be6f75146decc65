"""Parameters that get no gradient or that never change: found, and named."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, fails, mlp, own_loop, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def test_an_optimizer_that_never_steps() -> None:
    assert "no optimizer stepped in 64" in fails("parameter-never-changes", own_loop("zero", "backward")).summary


@pytest.mark.parametrize(
    ("every", "known", "outcome"),
    [(70, True, Outcome.PASS), (0, True, Outcome.FAIL), (0, False, Outcome.INCONCLUSIVE)],
)
def test_an_update_at_the_end_of_a_pass(every: int, known: bool, outcome: Outcome) -> None:
    trial = trial_on(TensorDataset(torch.randn(70 * 32, 8), torch.randint(5, (70 * 32,))))
    (model,), (optimizer,) = trial.models.values(), trial.optimizers.values()

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        (loss / 70).backward()
        if every and (index + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    trial.train_step = step
    trial.loaders = trial.loaders if known else {}
    assert ask("parameter-never-changes", trial).outcome is outcome


@pytest.mark.parametrize("learns", [True, False])
def test_gradients_that_the_program_sets_itself(learns: bool) -> None:
    """The outer loop of Reptile: a copy goes some steps, and the way it went is the gradient."""
    model = mlp()
    outer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        fast = deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        for _ in range(3):
            inner.zero_grad()
            loss = cross_entropy(fast, batch)
            loss.backward()
            inner.step()
        outer.zero_grad()
        for slow, quick in zip(model.parameters(), fast.parameters()):
            slow.grad = (slow - quick).detach() if learns else None
        outer.step()
        return {"loss": loss.detach()}

    verdict = ask("parameter-without-gradient", trial_of(model, classes(8), cross_entropy, outer, step))
    assert verdict.outcome is (Outcome.PASS if learns else Outcome.WARN), verdict


def test_a_learning_rate_of_zero() -> None:
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=0.0))
    assert "learning rate is 0" in fails("parameter-never-changes", trial).summary


@pytest.mark.parametrize(
    ("every", "rises", "outcome"),
    [(8, True, Outcome.PASS), (40, True, Outcome.INCONCLUSIVE), (8, False, Outcome.FAIL), (40, False, Outcome.FAIL)],
)
def test_a_warm_up_from_zero_of_an_accumulation(every: int, rises: bool, outcome: Outcome) -> None:
    """Its first update changes nothing, and the schedule goes on after it."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rises * min(1.0, step / 10))

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        (loss / every).backward()
        if (index + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        return {"loss": loss.detach()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step)
    trial.schedulers = {"warm-up": schedule}
    assert ask("parameter-never-changes", trial).outcome is outcome


def test_a_bias_that_normalisation_subtracts_again_has_no_gradient_but_rounding() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    nn.init.ones_(model[0].bias)
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=0.01))
    verdict = ask("parameter-never-changes", trial)
    assert verdict.outcome is Outcome.PASS, verdict.summary
    assert "5 parameters with gradients, and all" in verdict.summary


def test_updates_below_the_digits_of_a_weight_are_left_to_the_learning_rate() -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5))
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=1e-7))
    verdict = ask("parameter-never-changes", trial)
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary
    assert "`1.weight` are smaller than their rounding at learning rate 1e-07" in verdict.reason


def test_updates_that_half_precision_weights_lose() -> None:
    model = mlp().to(torch.bfloat16)
    batches = [(x.to(torch.bfloat16), y) for x, y in classes(8)]
    trial = trial_of(model, batches, cross_entropy, torch.optim.SGD(model.parameters(), lr=1e-7))
    assert "did not change by one bit" in fails("parameter-never-changes", trial).summary
    slow = trial_of(model, batches, cross_entropy, torch.optim.Adam(model.parameters(), lr=1e-6))
    assert "1e-06 the updates are rounded away in bfloat16" in fails("parameter-never-changes", slow).summary


@pytest.mark.parametrize(
    ("again", "outcome"),
    [
        (lambda model, loss: torch.tensor(loss.item(), requires_grad=True), Outcome.FAIL),
        (lambda model, loss: loss, Outcome.PASS),
        (lambda model, loss: torch.tensor(loss.item(), requires_grad=True) + model[-1].bias.sum(), Outcome.WARN),
    ],
    ids=["cut off", "whole", "but for one bias"],
)
def test_a_loss_that_is_made_anew_from_numbers(again: Any, outcome: Outcome) -> None:
    """Of batches that are drawn anew in each step: which weight changes the loss cannot be tried."""
    model, drawn = mlp(), torch.Generator().manual_seed(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Any, _: int) -> dict[str, float]:
        optimizer.zero_grad()
        loss = again(model, cross_entropy(model, (torch.randn(len(batch[0]), 8, generator=drawn), batch[1])))
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step)
    verdict = ask("parameter-without-gradient", trial)
    assert verdict.outcome is outcome, verdict
    assert ("backward reaches none of the 6 parameters" in verdict.summary) is (outcome is Outcome.FAIL)


def test_a_detached_body() -> None:
    model = Function(lambda layers, x: layers["head"](layers["body"](x).detach()), body=mlp(8, 8), head=nn.Linear(8, 5))
    verdict = fails("parameter-without-gradient", trial_of(model, classes(8), cross_entropy))
    assert "the graph is cut" in verdict.summary
    assert "layers.body.0.weight" in verdict.summary


def test_an_unused_layer_and_a_body_under_no_grad_only_warn() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = layers["body"](x)
        return layers["head"](features)

    model = Function(forward, body=mlp(8, 8), head=nn.Linear(8, 5), spare=nn.Linear(2, 2))
    verdict = ask("parameter-without-gradient", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is Outcome.WARN
    assert ["no_grad" in f.message for f in verdict.findings] == [True, False]
    assert "spare.weight" in verdict.findings[1].message


@pytest.mark.parametrize(("begins", "outcome"), [(999, Outcome.WARN), (20, Outcome.PASS)])
def test_gradients_that_are_all_zero(begins: int, outcome: Outcome) -> None:
    """As of rewards that are zero at first, or for good."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Any, index: int) -> dict[str, float]:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch) * float(index >= begins)
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    verdict = ask("parameter-without-gradient", trial_of(model, classes(8), cross_entropy, optimizer, step))
    assert verdict.outcome is outcome, verdict
    assert ("in 64 training steps every gradient was 0" in verdict.summary) is (outcome is Outcome.WARN)


@pytest.mark.parametrize(("begins", "outcome"), [(99, Outcome.INCONCLUSIVE), (2, Outcome.PASS)])
def test_a_head_whose_term_of_the_loss_has_a_weight_of_zero(begins: int, outcome: Outcome) -> None:
    model = Function(lambda layers, x: (layers["one"](x), layers["other"](x)), one=mlp(), other=nn.Linear(8, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batch: Any, index: int) -> dict[str, float]:
        optimizer.zero_grad()
        one, other = model(batch[0])
        loss = F.cross_entropy(one, batch[1]) + float(index >= begins) * F.cross_entropy(other, batch[1])
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    verdict = ask("parameter-without-gradient", trial_of(model, classes(8), cross_entropy, optimizer, step))
    assert verdict.outcome is outcome, verdict
    assert ("other.weight" in verdict.reason) is (outcome is Outcome.INCONCLUSIVE)


class Rounded(nn.Module):
    """A body, a function of its values, and a head."""

    def __init__(self, between: Any) -> None:
        super().__init__()
        self.body, self.head, self.between = mlp(8, 8), nn.Linear(8, 5), between

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.between(self.body(x)))


def test_a_body_behind_a_function_of_steps() -> None:
    for steps in (torch.sign, lambda h: (4 * h).round() / 4):
        verdict = fails("parameter-without-gradient", trial_of(Rounded(steps), classes(8), cross_entropy))
        assert "in all of 3 steps: what follows is a step function" in verdict.summary
        assert "body." in verdict.summary


def test_zeros_that_are_a_slope() -> None:
    """A straight-through estimate, units that are dead, a shift that softmax takes away, a gate of zero."""
    gate = nn.Parameter(torch.zeros(1))
    betweens = [
        lambda h: h + (h.sign() - h).detach(),
        lambda h: F.relu(h - 100.0),
        lambda h: gate * h,
        lambda h: (h - h.mean().detach()).clamp(-0.001, 0.001),
    ]
    for between in betweens:
        model = Rounded(between)
        if between is betweens[2]:
            model.gate = gate
        verdict = ask("parameter-without-gradient", trial_of(model, classes(8), cross_entropy))
        assert "is a step function" not in verdict.summary
        assert verdict.outcome is not Outcome.FAIL, verdict.summary


def two_optimizers(every: int) -> Trial:
    """The head's optimizer steps at every so many batches, at none for 0."""
    model = mlp()
    first = torch.optim.Adam(model[:4].parameters(), lr=1e-3)
    second = torch.optim.Adam(model[4].parameters(), lr=1e-3)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        first.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        first.step()
        if every and index % every == every - 1:
            second.step()
            second.zero_grad()
        return {"loss": loss.detach()}

    trial = trial_of(model, classes(8), cross_entropy, first, step)
    trial.optimizers = {"first": first, "second": second}
    return trial


def test_one_optimizer_of_two_never_steps() -> None:
    verdict = ask("parameter-never-changes", two_optimizers(0))
    says(verdict, Outcome.WARN, "`second` never stepped in 64 training steps (`first` 64 times)", "`4.weight`")
    says(ask("backward-without-step", two_optimizers(0)), Outcome.WARN, "`second` never stepped in 64 training steps")


def taking_turns(trains_first: bool) -> Trial:
    """A generator and its critic, each frozen while the other is trained."""
    made, critic = nn.Linear(4, 8), nn.Linear(8, 1)
    first, second = (torch.optim.Adam(model.parameters(), lr=1e-3) for model in (made, critic))

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        for training, frozen, optimizer in ((made, critic, first), (critic, made, second)):
            training.requires_grad_(True)
            frozen.requires_grad_(False)
            loss = F.softplus(critic(made(torch.randn(8, 4)))).mean() - critic(batch[0]).mean()
            for each in (first, second):
                each.zero_grad()
            loss.backward()
            (optimizer if trains_first else second).step()
        return {"loss": loss.detach()}

    trial = trial_of(made, classes(8), cross_entropy, first, step)
    trial.models, trial.optimizers = {"made": made, "critic": critic}, {"first": first, "second": second}
    return trial


def test_the_optimizer_of_a_model_that_is_frozen_in_turns_never_steps() -> None:
    verdict = ask("parameter-never-changes", taking_turns(False))
    says(verdict, Outcome.WARN, "`first` never stepped in 64 training steps", "`made.weight`")
    says(ask("backward-without-step", taking_turns(False)), Outcome.WARN, "`first` never stepped")
    for rule in ("parameter-never-changes", "backward-without-step"):
        says(ask(rule, taking_turns(True)), Outcome.PASS)


@pytest.mark.parametrize("every", [1, 5, 20])
def test_one_optimizer_steps_less_often(every: int) -> None:
    says(ask("parameter-never-changes", two_optimizers(every)), Outcome.PASS)
    says(ask("backward-without-step", two_optimizers(every)), Outcome.PASS)


@pytest.mark.parametrize(("turn", "outcome"), [(9, Outcome.PASS), (999, Outcome.WARN)])
def test_an_expert_whose_turn_has_not_come(turn: int, outcome: Outcome) -> None:
    """The second expert sees none of the first batches: only what never runs is not used."""

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList([nn.Linear(8, 5), nn.Linear(8, 5)])

        def forward(self, x: Tensor) -> Tensor:
            return self.experts[int(x[0, 0] == 1.0)](x)

    batches = [(x.clone(), y) for x, y in classes(8, batches=12)]
    for number, (x, _) in enumerate(batches):
        x[0, 0] = float(number == turn)
    says(ask("parameter-without-gradient", trial_of(Routed(), batches, cross_entropy)), outcome)


class Adapted(nn.Module):
    """Beside a linear layer, a path of two matrices of which some start at zero."""

    def __init__(self, zeros: str) -> None:
        super().__init__()
        self.base = nn.Linear(8, 5)
        self.down = nn.Parameter(torch.zeros(8, 2) if "down" in zeros else torch.randn(8, 2))
        self.up = nn.Parameter(torch.zeros(2, 5))
        self.scale = 0.0 if "scale" in zeros else 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.scale * (x @ self.down @ self.up)


@pytest.mark.parametrize(
    ("zeros", "outcome"), [("down", Outcome.FAIL), ("", Outcome.PASS), ("down, scale", Outcome.INCONCLUSIVE)]
)
def test_factors_that_are_both_zero_never_begin(zeros: str, outcome: Outcome) -> None:
    verdict = ask("parameter-without-gradient", trial_of(Adapted(zeros), classes(8), cross_entropy))
    says(verdict, outcome, *(["`down`, `up` are all zeros"] if outcome is Outcome.FAIL else []))


class BothWays(nn.Module):
    """Reads four numbers forwards and backwards, and says something of what both said."""

    def __init__(self, read: Callable[[Tensor, Tensor], Tensor], width: int) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(2, 6, batch_first=True, bidirectional=True), nn.Linear(width, 5)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.read(*self.layer(x.unflatten(1, (4, 2)))))


@pytest.mark.parametrize(
    ("read", "width", "lost"),
    [
        (lambda out, _: out[:, :, :6].mean(1), 6, "layer.weight_ih_l0_reverse"),
        (lambda _, last: last[-1], 6, "layer.weight_ih_l0`"),
        (lambda out, _: out.mean(1), 12, ""),
        (lambda out, _: out[:, -1], 12, ""),
        (lambda _, last: last[-2:].transpose(0, 1).flatten(1), 12, ""),
        (lambda out, _: (out[..., :6] + out[..., 6:]).mean(1), 6, ""),
        (lambda out, _: out.detach().mean(1), 12, ""),
    ],
    ids=("first half", "last state", "mean", "last step", "both states", "sum", "features"),
)
def test_one_direction_that_nobody_reads(read: Any, width: int, lost: str) -> None:
    verdict = ask("parameter-without-gradient", trial_of(BothWays(read, width), classes(8), cross_entropy))
    assert ("this direction of a recurrent layer" in verdict.summary) is bool(lost), verdict
    assert lost in verdict.summary
