"""Scores that were squashed, clipped or changed before a loss that squashes them itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, broken, classes, cross_entropy, fails, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


@pytest.mark.parametrize(
    ("last", "name"), [(nn.Softmax(1), "softmax"), (nn.Sigmoid(), "sigmoid"), (nn.Softmax(0), "softmax")]
)
def test_squashed_before_cross_entropy(last: nn.Module, name: str) -> None:
    finding = fails("softmax-before-ce", broken(last)).findings[0]
    assert f"comes from {name}" in finding.message
    assert finding.numbers["plateau"] == pytest.approx(math.log(1 + 4 / math.e))
    assert finding.location.path.endswith("probe_programs.py")


def test_logits_clipped_by_a_relu() -> None:
    verdict = ask("softmax-before-ce", broken(nn.ReLU()))
    assert verdict.outcome is Outcome.WARN
    assert "comes from relu: no class can be voted below 0" in verdict.findings[0].message


def nll(last: nn.Module) -> Any:
    model = nn.Sequential(*mlp(), last, nn.LogSoftmax(1))
    return trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))


@pytest.mark.parametrize(
    ("last", "outcome", "cost"),
    [
        (nn.Softmax(1), Outcome.FAIL, "cannot fall below 0.905"),
        (nn.Sigmoid(), Outcome.FAIL, "cannot fall below 0.905"),
        (nn.ReLU(), Outcome.WARN, "no class can be voted below 0"),
    ],
)
def test_scores_changed_before_a_log_softmax(last: nn.Module, outcome: Outcome, cost: str) -> None:
    says(ask("softmax-before-ce", nll(last)), outcome, "the scores that log_softmax turns into the input of nll", cost)


@pytest.mark.parametrize("last", [nn.Identity(), nn.Linear(5, 5), nn.LogSoftmax(1), nn.LeakyReLU()])
def test_scores_that_a_log_softmax_may_get(last: nn.Module) -> None:
    assert ask("softmax-before-ce", nll(last)).outcome is Outcome.SKIP


def test_one_class_is_always_certain() -> None:
    trial = trial_of(mlp(out=1), classes(8, classes=1), cross_entropy)
    assert "the loss is 0 and every gradient is 0" in fails("one-logit-ce", trial).findings[0].message
    shares = [(inputs, torch.rand(len(inputs), 1)) for inputs, _ in classes(8)]
    fails("one-logit-ce", trial_of(mlp(out=1), shares, cross_entropy))


def test_candidates_of_which_some_samples_have_one() -> None:
    """Scores for a list of candidates, whose length is the batch's own."""
    lists = [(torch.randn(4, count, 8), torch.zeros(4, dtype=torch.int64)) for count in (1, 3, 2)]
    model = Function(lambda layers, x: layers["score"](x).squeeze(-1), score=nn.Linear(8, 1))
    says(ask("one-logit-ce", trial_of(model, lists, cross_entropy)), Outcome.PASS, "chooses among 3 classes")


def test_probabilities_by_value_when_the_graph_hides_the_softmax() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        shares = layers["net"](x).exp()
        return shares / shares.sum(1, keepdim=True)

    trial = trial_of(Function(forward, net=mlp()), classes(8), cross_entropy)
    assert "on scrambled input too" in fails("softmax-before-ce", trial).findings[0].message


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda scores: scores.softmax(1), Outcome.WARN),
        (lambda scores: scores.log_softmax(1), Outcome.PASS),
        (lambda scores: scores, Outcome.PASS),
        (lambda scores: torch.full_like(scores, 0.2), Outcome.PASS),
    ],
    ids=("chances", "their logarithms", "logits", "no opinion"),
)
def test_what_enters_the_loss_of_validation_alone(change: Any, outcome: Outcome) -> None:
    model = mlp()

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"val_loss": float(F.cross_entropy(change(model(batch[0])), batch[1]))}

    verdict = ask("softmax-before-ce", trial_of(model, classes(8), cross_entropy, evaluate=evaluate))
    assert verdict.outcome is outcome, verdict.summary
    assert outcome is Outcome.PASS or "in validation the rows" in verdict.summary


def test_softmax_seen_through_a_view() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        return layers["net"](x).softmax(-1).unsqueeze(2).squeeze(2)

    fails("softmax-before-ce", trial_of(Function(forward, net=mlp()), classes(8), cross_entropy))


@pytest.mark.parametrize(("last", "what"), [(nn.Softmax(1), "probabilities"), (nn.Identity(), "logits")])
def test_nll_of_what_is_no_log_probability(last: nn.Module, what: str) -> None:
    model = nn.Sequential(*mlp(), last)
    trial = trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))
    assert what in fails("nll-without-log-softmax", trial).findings[0].message


def test_log_softmax_over_the_batch() -> None:
    model = nn.Sequential(*mlp(), nn.LogSoftmax(0))
    trial = trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))
    assert "another dimension" in fails("nll-without-log-softmax", trial).findings[0].message


ENDS = torch.tensor([9, 4, 7])


def ctc(said: Callable[[Tensor], Tensor]) -> Any:
    batches = [(torch.randn(3, 9, 8), torch.randint(1, 4, (3, 2))) for _ in range(3)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.ctc_loss(said(model(batch[0]).transpose(0, 1)), batch[1], ENDS, torch.tensor([2, 2, 2]))

    return trial_of(nn.Linear(8, 4), batches, loss)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (lambda scores: scores, "logits"),
        (lambda scores: scores.softmax(-1), "probabilities"),
        (lambda scores: scores.log_softmax(0), "another dimension"),
    ],
)
def test_a_sequence_loss_of_what_is_no_log_probability(said: Callable[[Tensor], Tensor], what: str) -> None:
    message = fails("nll-without-log-softmax", ctc(said)).findings[0].message
    assert message.startswith("the input of ctc_loss")
    assert what in message


@pytest.mark.parametrize(
    "said",
    [
        lambda scores: scores.log_softmax(-1),
        lambda scores: scores - scores.logsumexp(-1, keepdim=True),
        lambda scores: (torch.arange(9)[:, None] < ENDS)[:, :, None] * scores.log_softmax(-1),  # zeros behind the ends
    ],
)
def test_a_sequence_loss_of_log_probabilities(said: Callable[[Tensor], Tensor]) -> None:
    assert ask("nll-without-log-softmax", ctc(said)).outcome is Outcome.PASS


def test_sigmoid_before_bce_with_logits() -> None:
    batches = [(x, (x > 0).float()) for x, _ in classes(5)]
    model = nn.Sequential(*mlp(5, 5), nn.Sigmoid())
    trial = trial_of(model, batches, lambda m, batch: F.binary_cross_entropy_with_logits(m(batch[0]), batch[1]))
    fails("sigmoid-before-bcelogits", trial)


Score = Callable[[nn.Module, Tensor], Tensor]


def ranking(scores: nn.Module, x: Tensor) -> Tensor:
    return -F.logsigmoid(scores(x)).mean()


def one_against_the_other(scores: nn.Module, x: Tensor) -> Tensor:
    return F.softplus(-scores(x)).mean() + 0.5 * F.softplus(scores(x.flip(0))).mean()


def softly(model: nn.Module, x: Tensor) -> Tensor:
    return (F.softplus(model(x)) - 1).pow(2).mean()


@pytest.mark.parametrize("loss", [ranking, one_against_the_other])
@pytest.mark.parametrize("squashed", [True, False])
def test_sigmoid_before_a_cross_entropy_of_its_own(loss: Score, squashed: bool) -> None:
    model = nn.Sequential(*mlp(8, 1), *([nn.Sigmoid()] if squashed else []))
    verdict = ask("sigmoid-before-bcelogits", trial_of(model, classes(8), lambda m, batch: loss(m, batch[0])))
    assert verdict.outcome is (Outcome.FAIL if squashed else Outcome.PASS), verdict.reason or verdict.summary
    assert not squashed or "comes from sigmoid" in verdict.summary


def test_softplus_as_an_activation_is_no_loss() -> None:
    model = nn.Sequential(*mlp(8, 1), nn.Sigmoid())
    verdict = ask("sigmoid-before-bcelogits", trial_of(model, classes(8), lambda m, batch: softly(m, batch[0])))
    assert verdict.outcome is Outcome.SKIP, verdict.summary
