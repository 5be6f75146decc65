"""Metrics of models with a score for every pixel or every token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

Metrics = Callable[[Tensor, Tensor], dict[str, Any]]


def masked(metrics: Metrics, classes: int = 2) -> Trial:
    """A network that says of every pixel what it belongs to."""
    model = nn.Conv2d(1, classes, 1)
    generator = torch.Generator().manual_seed(2)
    masks = [torch.randint(classes, (12, 6, 6), generator=generator) for _ in range(3)]
    batches = [(mask[:, None] + 0.1 * torch.randn(12, 1, 6, 6, generator=generator), mask) for mask in masks]

    def evaluate(batch: Any) -> dict[str, Any]:
        with torch.no_grad():
            return metrics(model(batch[0]), batch[1])

    trial = trial_of(model, batches, cross_entropy, evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches)
    return trial


def overlap(scores: Tensor, mask: Tensor, one: int = 1) -> tuple[float, float]:
    found, true = scores.argmax(1) == one, mask == one
    return float((found & true).sum()), float((found | true).sum())


def soft_dice(scores: Tensor, mask: Tensor) -> float:
    p = scores.softmax(1)[:, 1]
    return float((2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1))


UNLIKE: dict[str, Metrics] = {
    "divided by all there is": lambda s, y: {"iou": overlap(s, y)[0] / y.numel()},
    "of the lowest score": lambda s, y: {"pixel_accuracy": float((s.argmin(1) == y).float().mean())},
    "twice too small": lambda s, y: {"val_dice": overlap(s, y)[0] / (overlap(s, y)[1] + y.sum().item())},
}
ALIKE: dict[str, Metrics] = {
    "a class": lambda s, y: {"iou": overlap(s, y)[0] / max(1, overlap(s, y)[1])},
    "its mean over classes, in per cent": lambda s, y: {
        "miou": sum(100 * overlap(s, y, k)[0] / overlap(s, y, k)[1] for k in (0, 1)) / 2
    },
    "soft": lambda s, y: {"dice": soft_dice(s, y)},
    "of a part": lambda s, y: {"edge_accuracy": float((s.argmax(1) == y)[:, 0].float().mean())},
    "something else": lambda s, y: {"iou_of_the_input": 0.3},
}


@pytest.mark.parametrize("name", UNLIKE)
def test_a_share_that_is_not_1_where_all_is_right(name: str) -> None:
    says(ask("metric-wrong", masked(UNLIKE[name])), Outcome.WARN, "where every prediction is right")


@pytest.mark.parametrize(("name", "outcome"), [("twice too small", Outcome.WARN), ("soft", Outcome.PASS)])
def test_a_model_that_evaluation_asks_twice(name: str, outcome: Outcome) -> None:
    trial = masked({**UNLIKE, **ALIKE}[name])
    model, once = trial.models["model"], trial.evaluate_step
    assert once is not None

    def twice(batch: Any) -> dict[str, Any]:
        return {"val_loss": cross_entropy(model, batch).item(), **once(batch)}

    trial.evaluate_step = twice
    says(ask("metric-wrong", trial), outcome)


@pytest.mark.parametrize("name", ALIKE)
def test_a_share_that_is(name: str) -> None:
    says(ask("metric-wrong", masked(ALIKE[name])), Outcome.PASS, "finite on 3 batches")


def test_a_class_that_no_mask_holds_may_count_as_nothing() -> None:
    def mean(scores: Tensor, mask: Tensor) -> dict[str, Any]:
        parts = [overlap(scores, mask, k) for k in range(3)]
        return {"miou": sum(inter / (union + 1e-6) for inter, union in parts) / 3}

    trial = masked(mean, classes=3)
    batches = [(x, mask.clamp(max=1)) for x, mask in trial.train_batches()]
    trial.validation_batches = lambda: iter(batches)
    assert ask("metric-wrong", trial).outcome is Outcome.PASS


def tagged(accuracy: Callable[[Tensor, Tensor], Tensor]) -> Trial:
    """A tagger of sentences of unequal length: what is filled up has the label -100."""
    model = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 4))
    generator = torch.Generator().manual_seed(4)
    batches = []
    for _ in range(3):
        words = torch.randint(12, (10, 9), generator=generator)
        ends = torch.randint(3, 10, (10, 1), generator=generator)
        batches.append((words, torch.where(torch.arange(9) < ends, words % 4, -100)))

    def loss(net: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(net(batch[0]).flatten(0, 1), batch[1].flatten())

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            scores = model(batch[0])
            known = F.cross_entropy(scores.flatten(0, 1), batch[1].flatten())
            return {"val_loss": float(known), "tag_accuracy": float(accuracy(scores, batch[1]))}

    trial = trial_of(model, batches, loss, evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches)
    return trial


def _right(scores: Tensor, tags: Tensor) -> Tensor:
    return (scores.argmax(-1) == tags) & (tags != -100)


def test_an_accuracy_of_tags_divided_by_sentences() -> None:
    verdict = ask("metric-wrong", tagged(lambda s, y: _right(s, y).sum() / len(y)))
    says(verdict, Outcome.WARN, "tag_accuracy is", "where every prediction is right")


@pytest.mark.parametrize(
    "accuracy",
    [
        lambda s, y: _right(s, y).sum() / (y != -100).sum(),
        lambda s, y: 100 * _right(s, y).sum() / (y != -100).sum(),
        lambda s, y: (_right(s, y) | (y == -100)).all(1).float().mean(),
        lambda s, y: (_right(s, y) & (y > 0)).sum() / (y > 0).sum(),
        lambda s, y: _right(s[:, :-1], y[:, 1:]).sum() / (y[:, 1:] != -100).sum(),
    ],
    ids=["of words", "per cent", "of whole sentences", "of some tags", "of the next place"],
)
def test_accuracies_of_tags_as_they_should_be(accuracy: Any) -> None:
    assert ask("metric-wrong", tagged(accuracy)).outcome is Outcome.PASS


def test_codes_of_each_place_are_no_scores_of_its_label() -> None:
    """Queries of few-shot episodes: the nearest of four centres is said, an output is a code."""
    model, places = nn.Linear(3, 6), torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    batches = [(x, y) for x, y in classes(5, 3, classes=4)]
    batches = [(x, y[:, None].repeat(1, 5)) for x, y in batches]

    def near(net: nn.Module, batch: Any) -> Tensor:
        return -torch.cdist(net(batch[0]), places.expand(len(batch[0]), -1, -1))

    def loss(net: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(near(net, batch).flatten(0, 1), batch[1].flatten())

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            scores = near(model, batch)
            known = F.cross_entropy(scores.flatten(0, 1), batch[1].flatten())
            return {"val_loss": float(known), "accuracy": float((scores.argmax(2) == batch[1]).float().mean())}

    trial = trial_of(model, batches, loss, evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches)
    assert ask("metric-wrong", trial).outcome is Outcome.PASS


class Decoder(nn.Module):
    """A score for what follows each token of a target that begins with a start."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 8), nn.Linear(8, 7)

    def forward(self, target: Tensor) -> Tensor:
        return self.out(self.embed(target[:, :-1]))


@pytest.mark.parametrize(("by_token", "outcome"), [(False, Outcome.WARN), (True, Outcome.PASS)])
def test_a_share_of_the_tokens_behind_a_start(by_token: bool, outcome: Outcome) -> None:
    model = Decoder()

    def loss_of(scores: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)

    def evaluate(batch: Any) -> dict[str, float]:
        wanted = batch[0][:, 1:]
        with torch.no_grad():
            scores = model(batch[0])
        right = (scores.argmax(2) == wanted) & (wanted != 0)
        counted = (wanted != 0).sum() if by_token else len(wanted)
        return {"val_loss": float(loss_of(scores, batch[0])), "token_accuracy": float(right.sum() / counted)}

    ids = torch.randint(2, 7, (4, 24, 9), generator=torch.Generator().manual_seed(0))
    ids[:, :, 0], ids[:, ::3, 6:] = 1, 0
    batches = [(batch,) for batch in ids]
    trial = trial_of(model, batches, lambda net, batch: loss_of(net(batch[0]), batch[0]), evaluate=evaluate)
    verdict = ask("metric-wrong", trial)
    assert verdict.outcome is outcome, verdict.summary
