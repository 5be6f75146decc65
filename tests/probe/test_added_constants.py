"""Terms of a loss that train nothing, and numbers that are added to losses on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "loss-term-without-gradient"
Term = Callable[[nn.Module, Any], Any]


def size(model: nn.Module) -> Tensor:
    return torch.stack([parameter.square().sum() for parameter in model.parameters()]).sum()


def slope(model: nn.Module, x: Tensor, **graph: Any) -> Tensor:
    x = x.clone().requires_grad_(True)
    (found,) = torch.autograd.grad(model(x).sum(), x, **graph)
    return (found.norm(dim=1) - 1).square().mean()


def beside(term: Term) -> Trial:
    return trial_of(mlp(), classes(8), lambda model, batch: cross_entropy(model, batch) + term(model, batch))


def without_grad(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x).square().mean()


IDLE: dict[str, Term] = {
    "as a python number": lambda m, b: 0.1 * size(m).item(),
    "detached": lambda m, b: 0.1 * size(m).detach(),
    "of the weights' data": lambda m, b: 0.1 * sum(p.data.abs().sum() for p in m.parameters()),
    "under no_grad": lambda m, b: without_grad(m, b[0]),
    "a gradient without a graph": lambda m, b: 5 * slope(m, b[0]),
    "subtracted": lambda m, b: -size(m).item(),
}


@pytest.mark.parametrize("name", IDLE)
def test_terms_that_train_nothing(name: str) -> None:
    verdict = ask(RULE, beside(IDLE[name]))
    says(verdict, Outcome.WARN, "trains nothing", "changes it by")
    assert ("create_graph" in verdict.summary) == (name == "a gradient without a graph")
    assert verdict.findings[0].location.path.endswith("test_added_constants.py")


def test_a_term_among_several_that_are_stacked() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return torch.stack([cross_entropy(model, batch), size(model).detach()]).sum() / 2

    says(ask(RULE, trial_of(mlp(), classes(8), loss)), Outcome.WARN, "trains nothing")


LIVELY: dict[str, Term] = {
    "a penalty": lambda m, b: 0.1 * size(m),
    "a gradient with a graph": lambda m, b: 5 * slope(m, b[0], create_graph=True),
    "a margin": lambda m, b: 0.3,
    "a number of the batch": lambda m, b: b[0].mean(),
    "the fixed part of a likelihood": lambda m, b: torch.log(torch.tensor(6.28)),
    "a weight that is found anew": lambda m, b: size(m) / size(m).item(),
    "a count that happens to be there": lambda m, b: 0.0 * without_grad(m, b[0]),
}


@pytest.mark.parametrize("name", LIVELY)
def test_terms_that_train_or_are_no_matter_of_the_weights(name: str) -> None:
    assert ask(RULE, beside(LIVELY[name])).outcome is Outcome.PASS


def test_a_logarithm_of_a_sum_that_subtracts_its_largest_first() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores = model(batch[0]).flatten()
        top = scores.max().detach()
        return top + (scores - top).exp().sum().log() - scores.mean()

    assert ask(RULE, trial_of(mlp(), classes(8), loss)).outcome is Outcome.PASS


def test_a_value_that_is_told_instead_of_what_is_trained() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        soft = cross_entropy(model, batch)
        hard = (model(batch[0]).argmax(1) != batch[1]).float().mean()
        return soft + (hard - soft).detach()

    assert ask(RULE, trial_of(mlp(), classes(8), loss)).outcome is Outcome.PASS


def test_what_an_adversary_says_of_real_samples_in_the_other_s_step() -> None:
    """The generator's loss holds a number that the discriminator's weights move, and it trains none of these."""
    generator, judge = nn.Linear(4, 8), nn.Linear(8, 1)
    makers = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in (generator, judge)]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        real, losses = batch[0], []
        for index, maker in enumerate(makers):
            judge.requires_grad_(index == 1)
            fake = generator(torch.randn(len(real), 4))
            fake = fake.detach() if index else fake
            loss = (judge(fake).mean() - judge(real).mean()) * (1 if index else -1)
            maker.zero_grad()
            loss.backward()
            maker.step()
            losses.append(loss.detach())
        return {"loss": sum(losses, torch.zeros(()))}

    trial = trial_of(judge, classes(8), cross_entropy, makers[1], step)
    trial.models = {"generator": generator, "judge": judge}
    trial.optimizers = {"generator": makers[0], "judge": makers[1]}
    assert ask(RULE, trial).outcome is Outcome.PASS


def test_regression_with_a_bias_beside() -> None:
    batches = [(torch.randn(16, 8), torch.randn(16, 5))] * 2
    says(ask(RULE, trial_of(mlp(), batches, lambda m, b: F.mse_loss(m(b[0]), b[1]))), Outcome.PASS, "no term")


class Scaled(nn.Module):
    """A likelihood under a change of variables: samples that a network scales, and what the scale adds for each."""

    def __init__(self, told: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.shift, self.net, self.told = nn.Parameter(torch.zeros(8)), mlp(), told

    def forward(self, x: Tensor) -> Tensor:
        log_scale = torch.tanh(self.net(x))
        volume = self.shift.sum() + self.told(log_scale)
        scaled = (x[:, : log_scale.shape[1]] + self.shift[: log_scale.shape[1]]) * log_scale.exp()
        return -0.5 * scaled.square().sum(1) + volume


def likelihood(told: Callable[[Tensor], Tensor]) -> Trial:
    return trial_of(Scaled(told), classes(8), lambda model, batch: -model(batch[0]).mean())


PER_SAMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "detached": lambda s: s.detach().sum(1),
    "detached after": lambda s: s.sum(1).detach(),
    "of its data": lambda s: s.data.sum(1),
    "out of numpy": lambda s: torch.from_numpy(s.detach().numpy().sum(1)),
}


@pytest.mark.parametrize("name", PER_SAMPLE)
def test_a_term_for_each_sample_that_trains_nothing(name: str) -> None:
    verdict = ask(RULE, likelihood(PER_SAMPLE[name]))
    says(verdict, Outcome.WARN, "trains nothing")
    assert verdict.findings[0].location.path.endswith("test_added_constants.py")


RIGHT_PER_SAMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "with its gradient": lambda s: s.sum(1),
    "a number of each sample": lambda s: s.sum(1) + torch.arange(len(s)),
    "told as rounded, trained as it is": lambda s: s.sum(1) + (s.round(decimals=1) - s).detach().sum(1) * 0,
}


@pytest.mark.parametrize("name", RIGHT_PER_SAMPLE)
def test_terms_for_each_sample_that_train(name: str) -> None:
    assert ask(RULE, likelihood(RIGHT_PER_SAMPLE[name])).outcome is Outcome.PASS


def chosen(straight: Callable[[Tensor, Tensor], Tensor]) -> Trial:
    """What a choice among classes is worth, by a gradient that goes straight through the choice."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        soft = model(batch[0]).softmax(1)
        hard = F.one_hot(soft.argmax(1), soft.shape[1]).float()
        return -(straight(soft, hard) * F.one_hot(batch[1], soft.shape[1])).sum(1).mean()

    return trial_of(mlp(), classes(8), loss)


def without_graph(soft: Tensor, hard: Tensor) -> Tensor:
    with torch.no_grad():
        gap = hard - soft
    return soft + gap


STRAIGHT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "the difference detached": lambda soft, hard: soft + (hard - soft).detach(),
    "the choice first": lambda soft, hard: hard - soft.detach() + soft,
    "the gradient first": lambda soft, hard: soft - soft.detach() + hard,
    "the choice, then both": lambda soft, hard: hard + soft - soft.detach(),
    "under no_grad": without_graph,
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_a_gradient_that_goes_straight_through_a_choice(name: str) -> None:
    assert ask(RULE, chosen(STRAIGHT[name])).outcome is Outcome.PASS


def test_an_advantage_whose_baseline_is_detached() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores = model(batch[0])
        taken = scores.log_softmax(1).gather(1, batch[1][:, None]).squeeze(1)
        return -(taken * (batch[0].sum(1) - scores.detach().mean(1))).mean() + 0.01 * scores.square().mean()

    assert ask(RULE, trial_of(mlp(), classes(8), loss)).outcome is Outcome.PASS


def apart(model: nn.Module, x: Tensor, grad: bool) -> Tensor:
    with torch.set_grad_enabled(grad):
        one, two = (model(x + 0.2 * torch.randn_like(x)).softmax(1) for _ in range(2))
    return F.mse_loss(one, two)


@pytest.mark.parametrize("grad", [False, True])
def test_two_answers_that_new_weights_give_alike(grad: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(600, 16, generator=torch.Generator().manual_seed(1))
    y = (x[:, :4].sum(1) > 0).long()
    batches = list(zip(x.split(50), y.split(50), strict=True))
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
    trial = trial_of(model, batches, lambda m, b: cross_entropy(m, b) + 5 * apart(m, b[0], grad))
    verdict = ask(RULE, trial)
    if grad:
        assert verdict.outcome is Outcome.PASS
    else:
        says(verdict, Outcome.WARN, "trains nothing")
