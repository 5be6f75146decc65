"""Weights that take part in the loss and that no optimizer holds: found, and named."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, fails, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def test_an_optimizer_that_was_given_what_is_frozen() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5)).requires_grad_(False)
    model[1].requires_grad_(True)
    optimizer = torch.optim.SGD([*model[3].parameters()], lr=0.1)
    verdict = fails("parameter-not-in-optimizer", trial_of(model, classes(8), cross_entropy, optimizer))
    assert "`1.weight`, `1.bias`" in verdict.summary


def test_layers_that_forward_makes_anew() -> None:
    model = Function(lambda layers, x: nn.Linear(32, 5)(nn.LayerNorm(32)(layers["first"](x))), first=nn.Linear(8, 32))
    verdict = fails("parameter-not-in-optimizer", trial_of(model, classes(8), cross_entropy))
    assert "4 parameters (of `LayerNorm`, `Linear`)" in verdict.summary
    assert "made anew in every step" in verdict.summary
    assert "make these layers in `__init__`" in verdict.findings[0].help


class LateHead(nn.Module):
    """Learns the width of its head from the first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 32)
        self.head: nn.Linear | None = None
        self.optimizer: torch.optim.Optimizer | None = None

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).relu()
        if self.head is None:
            self.head = nn.Linear(h.shape[1], 5)
            if self.optimizer:
                self.optimizer.add_param_group({"params": list(self.head.parameters())})
        return self.head(h)  # type: ignore[no-any-return]


def test_a_layer_that_the_first_forward_makes() -> None:
    verdict = fails("parameter-not-in-optimizer", trial_of(LateHead(), classes(8), cross_entropy))
    assert verdict.summary.startswith("`head.weight`, `head.bias` are made when the model first runs")
    assert len(verdict.findings) == 1


def test_a_layer_that_is_made_late_and_given_to_the_optimizer() -> None:
    model = LateHead()
    optimizer = torch.optim.Adam(model.body.parameters())
    model.optimizer = optimizer
    says(ask("parameter-not-in-optimizer", trial_of(model, classes(8), cross_entropy, optimizer)), Outcome.PASS)


def test_a_head_that_the_optimizer_does_not_hold() -> None:
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.Adam(model[:4].parameters(), lr=1e-3))
    assert "`4.weight`, `4.bias`" in fails("parameter-not-in-optimizer", trial).summary


def test_layers_in_a_python_list() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [nn.Linear(8, 8)]
            self.head = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks[0](x))

    finding = fails("parameter-not-in-optimizer", trial_of(Listed(), classes(8), cross_entropy)).findings[0]
    assert "blocks[0].weight" in finding.message


class Placed(nn.Module):
    """Adds what it keeps in an attribute that no optimizer sees."""

    def __init__(self, kept: Tensor) -> None:
        super().__init__()
        self.kept = kept
        self.net = mlp()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x + self.kept)


def test_a_tensor_that_asks_for_gradients_and_is_no_parameter() -> None:
    model = Placed(torch.zeros(8, requires_grad=True))
    verdict = fails("parameter-not-in-optimizer", trial_of(model, classes(8), cross_entropy))
    assert "`kept` takes part in the loss but belongs to no model" in verdict.summary


def test_tensors_with_gradients_that_are_no_parameters_for_a_reason() -> None:
    held = Placed(torch.zeros(8, requires_grad=True))
    optimizer = torch.optim.Adam([*held.parameters(), held.kept], lr=1e-3)
    by_hand = Placed(torch.zeros(8, requires_grad=True))
    plain = torch.optim.Adam(by_hand.parameters(), lr=1e-3)

    def moving(batch: Any, _: int) -> dict[str, Tensor]:
        plain.zero_grad()
        by_hand.kept.grad = None
        loss = cross_entropy(by_hand, batch)
        loss.backward()
        plain.step()
        by_hand.kept.data -= 0.1 * by_hand.kept.grad
        return {"loss": loss.detach()}

    class Watched(Placed):
        def forward(self, x: Tensor) -> Tensor:
            self.kept = x.detach().requires_grad_()
            return self.net(self.kept)

    trials = [
        trial_of(held, classes(8), cross_entropy, optimizer),
        trial_of(by_hand, classes(8), cross_entropy, plain, step=moving),
        trial_of(Watched(torch.zeros(8)), classes(8), cross_entropy),
        trial_of(Placed(torch.zeros(8)), classes(8), cross_entropy),
    ]
    for trial in trials:
        trial.objects = (trial.models["model"],)
        assert ask("parameter-not-in-optimizer", trial).outcome is Outcome.PASS


class Beside(SimpleNamespace):
    """What a program keeps outside its model."""


def weighed(beside: Any, weights: Callable[[], Tensor], move: bool = False, hold: bool = False) -> Trial:
    """Two losses by weights that are learnt: of them no model knows."""
    model = mlp(8, 6)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        parts = torch.stack([F.cross_entropy(out[:, :5], batch[1]), out[:, 5].square().mean()])
        return (parts * (-weights()).exp() + weights()).sum()

    held = [*model.parameters(), *([weights()] if hold else [])]
    optimizer = torch.optim.Adam(held, lr=1e-3)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        told = loss(model, batch)
        told.backward()
        optimizer.step()
        if move:
            with torch.no_grad():
                weights().sub_(0.1 * weights().grad).clamp_(-3, 3)
                weights().grad = None
        return {"loss": told.detach()}

    trial = trial_of(model, classes(8), loss, optimizer, step=step)
    trial.objects = (beside,)
    return trial


def asking(*shape: int) -> Tensor:
    return torch.zeros(shape, requires_grad=True)


def test_weights_of_losses_that_the_program_keeps_for_itself() -> None:
    plain = Beside(log_var=asking(2))
    verdict = fails("parameter-not-in-optimizer", weighed(plain, lambda: plain.log_var))
    assert "`log_var` takes part in the loss, but no optimizer holds it" in verdict.summary
    listed = Beside(sigmas=[asking(), asking()])
    assert (
        "sigmas[0]" in fails("parameter-not-in-optimizer", weighed(listed, lambda: torch.stack(listed.sigmas))).summary
    )
    keyed = Beside(sigmas={"kind": asking(), "size": asking()})
    told = fails("parameter-not-in-optimizer", weighed(keyed, lambda: torch.stack([*keyed.sigmas.values()]))).summary
    assert "sigmas['kind']" in told
    inner = {"balance": Beside(log_var=asking(2)).log_var}
    assert "`balance`" in fails("parameter-not-in-optimizer", weighed(inner, lambda: inner["balance"])).summary


def test_weights_of_losses_that_are_moved_somehow() -> None:
    for how in ({"move": True}, {"hold": True}):
        plain = Beside(log_var=asking(2))
        assert (
            ask("parameter-not-in-optimizer", weighed(plain, lambda kept=plain: kept.log_var, **how)).outcome
            is Outcome.PASS
        )


def test_points_where_the_loss_wants_a_slope_are_not_to_be_trained() -> None:
    beside = Beside(points=torch.linspace(0, 1, 8)[:, None].requires_grad_())

    def residual(model: nn.Module, batch: Any) -> Tensor:
        value = model(2 * beside.points)
        (slope,) = torch.autograd.grad(value.sum(), beside.points, create_graph=True)
        return (slope - value).square().mean() + 0.0 * batch[0].sum()

    trial = trial_of(mlp(1, 1), classes(8), residual)
    trial.objects = (beside,)
    assert ask("parameter-not-in-optimizer", trial).outcome is Outcome.PASS


def with_target(target: nn.Module, copied: bool = True, follows: float = 0.0) -> Trial:
    """As in deep Q-learning, the target's values not detached, and with an optimizer that every network makes."""
    model = mlp(8, 1)
    if follows:
        nn.init.zeros_(model[-1].bias)
    if copied:
        target.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Any, _: int) -> dict[str, float]:
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), 1.0 + 0.9 * target(batch[0]))
        loss.backward()
        optimizer.step()
        if follows:
            with torch.no_grad():
                for late, early in zip(target.parameters(), model.parameters()):
                    late.lerp_(early, follows)
        return {"loss": loss.item()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step)


def test_a_target_network_follows_a_model_and_belongs_to_no_optimizer() -> None:
    assert ask("parameter-not-in-optimizer", with_target(mlp(8, 1))).outcome is Outcome.PASS
    slow = with_target(mlp(8, 1), follows=0.001)  # a bias that began at 0 is near to nothing
    assert ask("parameter-not-in-optimizer", slow).outcome is Outcome.PASS
    other = nn.Sequential(nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 1))
    for forgotten in (other, mlp(8, 1)):
        trial = with_target(forgotten, copied=False)
        assert "belong to no model" in fails("parameter-not-in-optimizer", trial).summary


def test_an_optimizer_that_every_network_makes_and_a_target_never_uses() -> None:
    target = mlp(8, 1)
    trial = with_target(target)
    trial.models = {**trial.models, "target": target}
    trial.optimizers = {**trial.optimizers, "spare": torch.optim.Adam(target.parameters())}
    step = trial.train_step
    called = target.forward
    target.forward = lambda x: called(x).detach()
    trial.train_step = lambda batch, index: step(batch, index)
    assert ask("parameter-without-gradient", trial).outcome is Outcome.PASS
