"""Partial likelihoods whose risk sets are those at risk, those before them, or what stands before them in a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

RULE = "risk-set-reversed"


def cohort() -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [
        {
            "x": torch.randn(48, 6, generator=generator),
            "months": 12 * torch.rand(48, generator=generator),
            "died": (torch.rand(48, generator=generator) < 0.5).float(),
        }
        for _ in range(4)
    ]


def sorted_by(order: Any, cumulate: Any = torch.logcumsumexp, sign: float = 1.0) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        places = order(batch["months"])
        scores, died = sign * model(batch["x"])[:, 0][places], batch["died"][places]
        return -((scores - cumulate(scores, 0)) * died).sum() / died.sum()

    return loss


def longest_first(months: Tensor) -> Tensor:
    return months.argsort(descending=True)


def shortest_first(months: Tensor) -> Tensor:
    return months.argsort()


def as_they_are(months: Tensor) -> Tensor:
    return torch.arange(len(months))


def by_exponentials(scores: Tensor, _: int) -> Tensor:
    return scores.exp().cumsum(0).log()


def from_behind(scores: Tensor, dim: int) -> Tensor:
    return scores.flip(dim).logcumsumexp(dim).flip(dim)


def written_in_pairs(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch["x"])[:, 0]
    at_risk = batch["months"][None] >= batch["months"][:, None]
    among = scores[None].masked_fill(~at_risk, -torch.inf).logsumexp(1)
    return -((scores - among) * batch["died"]).mean()


def program(loss: Any) -> Any:
    return trial_of(nn.Linear(6, 1), cohort(), loss)


@pytest.mark.parametrize("cumulate", [torch.logcumsumexp, by_exponentials])
def test_the_shortest_first(cumulate: Any) -> None:
    verdict = ask(RULE, program(sorted_by(shortest_first, cumulate)))
    says(verdict, Outcome.FAIL, "those whose `months` was shorter", "just where an event lies between")
    says(
        ask(RULE, program(sorted_by(shortest_first, cumulate, -1.0))), Outcome.FAIL, "those whose `months` was shorter"
    )


def test_in_the_order_of_the_batch() -> None:
    says(ask(RULE, program(sorted_by(as_they_are))), Outcome.FAIL, "which is not sorted by `months`")


@pytest.mark.parametrize(
    "loss",
    [
        sorted_by(longest_first),
        sorted_by(longest_first, by_exponentials),
        sorted_by(longest_first, sign=-1.0),
        sorted_by(shortest_first, from_behind),
        written_in_pairs,
    ],
)
def test_those_at_risk(loss: Any) -> None:
    assert ask(RULE, program(loss)).outcome is Outcome.PASS


def weighed(model: nn.Module, batch: Any) -> Tensor:
    return F.binary_cross_entropy_with_logits(model(batch["x"])[:, 0], batch["died"], weight=batch["months"])


def exposed(model: nn.Module, batch: Any) -> Tensor:
    """A rate of events, for time under observation."""
    scores = model(batch["x"])[:, 0]
    return (scores.exp() * batch["months"] - scores * batch["died"]).mean()


@pytest.mark.parametrize("loss", [weighed, exposed])
def test_losses_of_events_that_compare_nobody(loss: Any) -> None:
    assert ask(RULE, program(loss)).outcome is Outcome.SKIP


def concordance(model: nn.Module, batch: Any) -> Tensor:
    scores, months = model(batch["x"])[:, 0], batch["months"]
    pairs = (months[:, None] < months) & (batch["died"][:, None] > 0)
    return ((scores[:, None] > scores) & pairs).sum() / pairs.sum()


def of_the_others(loss: Any) -> Any:
    return lambda model, batch: loss(model, {**batch, "died": 1 - batch["died"]})


def evaluated(loss: Any, metric: Any) -> Any:
    model = nn.Linear(6, 1)

    @torch.no_grad()
    def evaluate(batch: Any) -> dict[str, float]:
        return {"val": float(metric(model, batch))}

    return trial_of(model, cohort(), loss, evaluate=evaluate)


RIGHT = sorted_by(longest_first)


@pytest.mark.parametrize("metric", [RIGHT, concordance, written_in_pairs])
def test_events_of_the_loss_are_the_censored_of_the_evaluation(metric: Any) -> None:
    says(ask(RULE, evaluated(of_the_others(RIGHT), metric)), Outcome.FAIL, "whose `died` is 0 for events", "is 1: one")
    says(ask(RULE, evaluated(RIGHT, of_the_others(metric))), Outcome.FAIL, "whose `died` is 1 for events", "is 0: one")


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        (RIGHT, concordance),
        (of_the_others(RIGHT), of_the_others(concordance)),
        (of_the_others(RIGHT), lambda model, batch: model(batch["x"]).mean()),
        (
            of_the_others(RIGHT),
            lambda model, batch: concordance(model, batch) + of_the_others(concordance)(model, batch),
        ),
    ],
    ids=("both by deaths", "a flag of the censored", "another metric", "neither"),
)
def test_one_flag_for_both(loss: Any, metric: Any) -> None:
    assert ask(RULE, evaluated(loss, metric)).outcome is Outcome.PASS


def test_the_censored_that_are_sorted_the_wrong_way() -> None:
    says(ask(RULE, program(of_the_others(sorted_by(shortest_first)))), Outcome.FAIL, "those whose `months` was shorter")
