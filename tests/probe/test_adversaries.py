"""Generators that work for their discriminator, and games as they should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "adversary-helps"
Of = Callable[[Tensor], Tensor]


def bce(one: float) -> Of:
    return lambda scores: F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, one))


GAMES: dict[str, tuple[Of, Of, Of]] = {
    "non-saturating": (bce(1.0), bce(0.0), bce(1.0)),
    "saturating": (bce(1.0), bce(0.0), lambda s: -bce(0.0)(s)),
    "smoothed labels": (bce(0.9), bce(0.0), bce(1.0)),
    "Wasserstein": (lambda s: -s.mean(), lambda s: s.mean(), lambda s: -s.mean()),
    "the other way round": (lambda s: s.mean(), lambda s: -s.mean(), lambda s: s.mean()),
    "hinge": (lambda s: F.relu(2 - s).mean(), lambda s: F.relu(2 + s).mean(), lambda s: -s.mean()),
    "softplus": (lambda s: F.softplus(-s).mean(), lambda s: F.softplus(s).mean(), lambda s: F.softplus(-s).mean()),
}


def in_one(real: Tensor, made: Tensor) -> None:
    (real + made).backward()


def apart(real: Tensor, made: Tensor) -> None:
    real.backward()
    made.backward()


def turned(real: Tensor, made: Tensor) -> None:
    (-made).backward(torch.tensor(-1.0))
    (-2 * real).backward(torch.tensor(-0.5))


def game(
    real: Of, made: Of, aim: Of, frozen: bool = False, every: int = 1, conditional: bool = False,
    backward: Callable[[Tensor, Tensor], None] = in_one,
) -> Trial:  # fmt: skip
    torch.manual_seed(5)
    maker, judge = nn.Linear(4, 8), nn.Sequential(nn.Linear(16 if conditional else 8, 16), nn.Tanh(), nn.Linear(16, 1))
    opt_m, opt_j = (torch.optim.Adam(net.parameters(), lr=1e-3) for net in (maker, judge))

    def asked(x: Tensor, beside: Tensor) -> Tensor:
        return judge(torch.cat([x, beside], 1) if conditional else x)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        x = batch[0]
        fake = maker(torch.randn(len(x), 4))
        opt_j.zero_grad()
        terms = real(asked(x, x)), made(asked(fake.detach(), x))
        backward(*terms)
        opt_j.step()
        if (index + 1) % every == 0:
            judge.requires_grad_(not frozen)
            opt_m.zero_grad()
            aim(asked(fake, x)).backward()
            opt_m.step()
            judge.requires_grad_(True)
        return {"loss": sum(terms).detach()}

    trial = trial_of(judge, classes(8), cross_entropy, opt_j, step)
    trial.models = {"maker": maker, "judge": judge}
    trial.optimizers = {"maker": opt_m, "judge": opt_j}
    return trial


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_maker_that_works_for_its_judge(name: str, frozen: bool) -> None:
    real, made, aim = GAMES[name]
    says(ask(RULE, game(real, made, lambda s: -aim(s), frozen)), Outcome.FAIL, "works for `judge`, not against it")
    assert ask(RULE, game(real, made, aim, frozen)).outcome is Outcome.PASS


def test_two_players_that_are_parts_of_one_model() -> None:
    real, made, aim = GAMES["non-saturating"]
    for ends, outcome in ((made, Outcome.FAIL), (aim, Outcome.PASS)):
        trial = game(real, made, ends)
        trial.models = {"both": nn.ModuleDict(trial.models)}
        assert ask(RULE, trial).outcome is outcome


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("turned", ["real", "made"])
def test_a_judge_that_is_told_the_same_of_both(name: str, turned: str) -> None:
    real, made, aim = GAMES[name]
    trial = game(real, real, aim) if turned == "made" else game(made, made, aim)
    says(ask(RULE, trial), Outcome.WARN, "`judge` learns to say the same of real samples and of what `maker` makes")


@pytest.mark.parametrize("backward", [apart, turned])
@pytest.mark.parametrize("name", ["non-saturating", "Wasserstein", "the other way round"])
def test_a_judge_that_is_told_of_real_and_made_apart(name: str, backward: Callable[[Tensor, Tensor], None]) -> None:
    real, made, aim = GAMES[name]
    assert ask(RULE, game(real, made, aim, backward=backward)).outcome is Outcome.PASS
    assert ask(RULE, game(real, made, lambda s: -aim(s), backward=backward)).outcome is Outcome.FAIL
    assert ask(RULE, game(real, real, aim, backward=backward)).outcome is Outcome.WARN


def test_a_maker_that_steps_more_seldom() -> None:
    real, made, aim = GAMES["Wasserstein"]
    assert ask(RULE, game(real, made, aim, every=3)).outcome is Outcome.PASS
    assert ask(RULE, game(real, made, made, every=3)).outcome is Outcome.FAIL


def test_what_cannot_be_told() -> None:
    def squares(to: float) -> Of:
        return lambda scores: (scores - to).square().mean()

    assert ask(RULE, game(squares(1.0), squares(0.0), squares(1.0))).outcome in (Outcome.INCONCLUSIVE, Outcome.SKIP)
    real, made, aim = GAMES["non-saturating"]
    assert ask(RULE, game(real, made, aim, conditional=True)).outcome is Outcome.SKIP


def test_two_models_that_work_together() -> None:
    """An encoder and a decoder with an optimizer each lower one loss."""
    encode, decode = nn.Linear(8, 3), nn.Linear(3, 8)
    optimizers = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in (encode, decode)]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = F.mse_loss(decode(encode(batch[0])), batch[0])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return {"loss": loss.detach()}

    trial = trial_of(encode, classes(8), cross_entropy, optimizers[0], step)
    trial.models = {"encode": encode, "decode": decode}
    trial.optimizers = {"encode": optimizers[0], "decode": optimizers[1]}
    assert ask(RULE, trial).outcome in (Outcome.SKIP, Outcome.INCONCLUSIVE)


def test_one_optimizer() -> None:
    assert ask(RULE, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP


@pytest.mark.parametrize("frozen", [False, True])
def test_a_maker_whose_optimizer_holds_the_judge_as_well(frozen: bool) -> None:
    real, made, aim = GAMES["non-saturating"]
    trial = game(real, made, aim, frozen)
    trial.optimizers["maker"].add_param_group({"params": [*trial.models["judge"].parameters()]})
    if frozen:  # the judge takes no part while the maker is stepped
        assert ask(RULE, trial).outcome is Outcome.PASS
    else:
        says(ask(RULE, trial), Outcome.FAIL, "moves 4 weights of `judge` towards the answers that it wants")


def test_a_third_optimizer_for_what_both_are_to_carry() -> None:
    """As an InfoGAN has one: the code that the sample was made of is to be read off the judge's features."""
    trial = game(*GAMES["non-saturating"])
    maker, judge, step = trial.models["maker"], trial.models["judge"], trial.train_step
    both = torch.optim.Adam([*maker.parameters(), *judge.parameters()], lr=1e-3)

    def informed(batch: Any, index: int) -> Mapping[str, Any]:
        told = step(batch, index)
        both.zero_grad()
        code = torch.randn(8, 4)
        (judge[0](maker(code))[:, :4] - code).pow(2).mean().backward()  # type: ignore[index]
        both.step()
        return told

    trial.train_step, trial.optimizers["both"] = informed, both
    assert ask(RULE, trial).outcome is Outcome.PASS


@pytest.mark.parametrize("backward", [in_one, apart])
def test_least_squares_begin_on_one_side_of_both_targets(backward: Callable[[Tensor, Tensor], None]) -> None:
    def squares(one: float) -> Of:
        return lambda scores: (scores - 3.0 - one).pow(2).mean()

    trial = game(squares(9.0), squares(0.0), squares(9.0), backward=backward)
    assert ask(RULE, trial).outcome is Outcome.INCONCLUSIVE
