"""Targets of temporal-difference learning, with and without gradients, and losses that look like it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

RULE = "bootstrap-not-detached"
Batch = dict[str, Tensor]


def replay() -> list[Batch]:
    return [
        {
            "state": torch.randn(32, 8),
            "action": torch.randint(3, (32,)),
            "reward": torch.randn(32),
            "next": torch.randn(32, 8),
            "done": (torch.rand(32) < 0.2).float(),
        }
        for _ in range(4)
    ]


def learning(update: Any) -> Any:
    model = mlp(8, 3)
    frozen = copy.deepcopy(model)
    return trial_of(model, replay(), lambda net, batch: update(net, frozen, batch))


def chosen(net: nn.Module, batch: Batch) -> Tensor:
    return net(batch["state"]).gather(1, batch["action"][:, None]).squeeze(1)


def by_the_largest(net: nn.Module, _: nn.Module, batch: Batch) -> Tensor:
    best = net(batch["next"]).max(1).values
    return F.smooth_l1_loss(chosen(net, batch), batch["reward"] + 0.9 * best * (1 - batch["done"]))


def by_hand(net: nn.Module, _: nn.Module, batch: Batch) -> Tensor:
    best = net(batch["next"]).amax(1)
    error = batch["reward"] + (1 - batch["done"]) * 0.9 * best - net(batch["state"])[range(32), batch["action"]]
    return error.pow(2).mean()


@pytest.mark.parametrize("update", [by_the_largest, by_hand])
def test_a_target_that_the_trained_network_computes_with_gradients(update: Any) -> None:
    says(ask(RULE, learning(update)), Outcome.WARN, "carries gradients")


def under_no_grad(net: nn.Module, _: nn.Module, batch: Batch) -> Tensor:
    with torch.no_grad():
        best = net(batch["next"]).max(1).values
    return F.mse_loss(chosen(net, batch), batch["reward"] + 0.9 * best * (1 - batch["done"]))


def by_another(net: nn.Module, frozen: nn.Module, batch: Batch) -> Tensor:
    best = frozen(batch["next"]).max(1).values
    return F.mse_loss(chosen(net, batch), batch["reward"] + 0.9 * best * (1 - batch["done"]))


def margin(net: nn.Module, _: nn.Module, batch: Batch) -> Tensor:
    """A ranking loss: the largest of the others, plus a margin, against the chosen one."""
    scores = net(batch["state"])
    others = scores.masked_fill(F.one_hot(batch["action"], 3).bool(), -1e9).amax(1)
    return F.relu(1.0 + others - chosen(net, batch)).mean()


def consistent(net: nn.Module, _: nn.Module, batch: Batch) -> Tensor:
    return F.mse_loss(chosen(net, batch), net(batch["next"]).max(1).values)


@pytest.mark.parametrize("update", [under_no_grad, by_another, margin, consistent])
def test_targets_without_gradients_and_other_losses(update: Any) -> None:
    assert ask(RULE, learning(update)).outcome in (Outcome.PASS, Outcome.SKIP)


def acting(target: Any, draws: bool = True) -> Any:
    """A critic of states beside an actor, which draws what it does in the same step; or a batch says what was done."""
    parts = {"actor": nn.Linear(16, 3), "critic": nn.Linear(16, 1), "slow": nn.Linear(8, 1).requires_grad_(False)}
    net = nn.ModuleDict({"body": nn.Sequential(nn.Linear(8, 16), nn.Tanh()), **parts})

    def update(net: Any, batch: Batch) -> Tensor:
        def value(states: Tensor) -> Any:
            return net["critic"](net["body"](states)).squeeze(1)

        chances = net["actor"](net["body"](batch["state"])).log_softmax(1)
        done = chances.detach().exp().multinomial(1)[:, 0] if draws else batch["action"]
        error = target(net, value, batch) - value(batch["state"])
        said = (chances * F.one_hot(done, 3)).sum(1)
        return error.pow(2).mean() - (said * error.detach()).mean()

    return trial_of(net, replay(), update)


def discounted(_: Any, value: Any, batch: Batch) -> Any:
    return batch["reward"] + 0.95 * (1 - batch["done"]) * value(batch["next"])


def test_a_critic_of_states_beside_an_actor_that_draws() -> None:
    says(ask(RULE, acting(discounted)), Outcome.WARN, "carries gradients")
    other_order = acting(lambda _, value, batch: value(batch["next"]) * 0.9 + batch["reward"])
    says(ask(RULE, other_order), Outcome.WARN, "carries gradients")


@pytest.mark.parametrize(
    "target",
    [
        lambda net, value, batch: discounted(net, value, batch).detach(),
        lambda net, value, batch: batch["reward"] + 0.95 * net["slow"](batch["next"]).squeeze(1),
        lambda net, value, batch: batch["reward"] + 0.1 * value(batch["next"]),
        lambda net, value, batch: batch["reward"] + batch["reward"].abs() * value(batch["next"]),
        lambda net, value, batch: 0.95 * value(batch["next"]),
        lambda net, value, batch: batch["reward"] + 0.95 * net["actor"](net["body"](batch["next"]))[:, 0],
    ],
    ids=["detached", "another network", "a short step", "factors of all sizes", "no reward", "another head"],
)
def test_what_is_no_discounted_value_of_the_same_critic(target: Any) -> None:
    assert ask(RULE, acting(target)).outcome in (Outcome.PASS, Outcome.SKIP)


def test_where_nothing_is_drawn_a_critic_of_states_may_be_any_model() -> None:
    assert ask(RULE, acting(discounted, draws=False)).outcome is Outcome.SKIP


def weighing(likelihood: Any, weight: Any) -> Any:
    """An actor whose drawn action is weighed by what a critic says of it."""
    net = nn.ModuleDict({"actor": nn.Linear(8, 3), "critic": nn.Linear(8, 1)})

    def update(net: Any, batch: Batch) -> Tensor:
        error = batch["reward"] - net["critic"](batch["state"]).squeeze(1)
        return error.pow(2).mean() - (likelihood(net["actor"](batch["state"])) * weight(error)).mean()

    return trial_of(net, replay(), update)


def of_one_action(scores: Tensor) -> Any:
    policy = torch.distributions.Categorical(logits=scores)
    return policy.log_prob(policy.sample())


def of_numbers(scores: Tensor) -> Any:
    policy = torch.distributions.Normal(scores, 0.5)
    return policy.log_prob(policy.sample()).sum(1)


def as_ratio(scores: Tensor) -> Any:
    now = of_one_action(scores)
    return (now - now.detach()).exp()


def standardised(error: Tensor) -> Tensor:
    return (error - error.mean()) / (error.std() + 1e-8)


@pytest.mark.parametrize("likelihood", [of_one_action, of_numbers, as_ratio])
@pytest.mark.parametrize("weight", [lambda error: error, standardised], ids=["plain", "standardised"])
def test_an_advantage_with_gradients(likelihood: Any, weight: Any) -> None:
    says(ask(RULE, weighing(likelihood, weight)), Outcome.WARN, "the advantage", "trains the critic too")


@pytest.mark.parametrize("likelihood", [of_one_action, of_numbers, as_ratio])
@pytest.mark.parametrize(
    "weight", [lambda error: error.detach(), lambda error: standardised(error.detach())], ids=["plain", "standardised"]
)
def test_an_advantage_without_gradients(likelihood: Any, weight: Any) -> None:
    assert ask(RULE, weighing(likelihood, weight)).outcome in (Outcome.PASS, Outcome.SKIP)


def test_an_entropy_is_no_advantage() -> None:
    def surprise(scores: Tensor) -> Tensor:
        logs = scores.log_softmax(1)
        drawn = logs.exp().detach().multinomial(1)
        return logs.gather(1, drawn)[:, 0] * (1 - (logs.exp() * logs).sum(1))

    assert ask(RULE, weighing(surprise, lambda error: error.detach())).outcome in (Outcome.PASS, Outcome.SKIP)
