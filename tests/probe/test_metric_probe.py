"""Metric code: wrong in the ways it is usually wrong, and right in many ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, share, trial_of
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

Metrics = Callable[[Tensor, Tensor], dict[str, Any]]


def evaluating(metrics: Metrics, out: int = 5, model: nn.Module | None = None) -> Trial:
    model = model or mlp(out=out)

    def evaluate(batch: Any) -> dict[str, Any]:
        model.eval()
        with torch.no_grad():
            scores = model(batch[0])
        return metrics(scores.squeeze(-1) if out == 1 else scores, batch[1])

    batches = classes(8, classes=max(2, out), size=40)
    trial = trial_of(model, batches, cross_entropy if out > 1 else two_classes, evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches)
    return trial


def two_classes(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(model(batch[0])[:, 0], batch[1].float())


WRONG: dict[str, tuple[Metrics, int, str]] = {
    "argmax over samples": (lambda s, y: {"acc": share(s.argmax(0)[torch.arange(40) % 5], y)}, 5, "where the model's"),
    "threshold of probabilities on logits": (lambda s, y: {"val_accuracy": share(s > 0.5, y)}, 1, "recomputed"),
    "fixed batch size": (lambda s, y: {"accuracy": int((s.argmax(1) == y).sum()) / 64}, 5, "depends on the batch size"),
    "fixed batch size, of one head": (
        lambda s, y: {"digit_accuracy": int((s.argmax(1) == y).sum()) / 64},
        5,
        "digit_accuracy depends on the batch size",
    ),
    "the root of a sum of squares": (
        lambda s, y: {"val_rmse": float((s.squeeze(-1) - y).pow(2).sum().sqrt())},
        1,
        "depends on the batch size",
    ),
    "a norm for a mean": (lambda s, y: {"mae": float(torch.dist(s, y.float()))}, 1, "as the root of a sum does"),
    "a mean divided once more": (
        lambda s, y: {"val_loss": float(F.cross_entropy(s, y)) / len(y)},
        5,
        "val_loss is a mean divided by the batch size once more",
    ),
    "0 / 0": (lambda s, y: {"recall_7": float(((s.argmax(1) == 7) & (y == 7)).sum() / (y == 7).sum())}, 5, "is NaN"),
}


def sure(out: int) -> nn.Module:
    """Scores on both sides of 0, many of them between 0 and 0.5."""
    model = nn.Linear(8, out)
    nn.init.normal_(model.weight, std=0.2, generator=torch.Generator().manual_seed(0))
    nn.init.constant_(model.bias, 0.25)
    return model


@pytest.mark.parametrize("name", WRONG)
def test_metrics_that_are_not_what_they_are_called(name: str) -> None:
    metrics, out, said = WRONG[name]
    verdict = ask("metric-wrong", evaluating(metrics, out, sure(out)))
    assert verdict.outcome is Outcome.WARN, verdict.summary
    assert said in verdict.summary or said in verdict.findings[0].numbers


RIGHT: dict[str, tuple[Metrics, int]] = {
    "share": (lambda s, y: {"accuracy": share(s.argmax(1), y)}, 5),
    "per cent": (lambda s, y: {"val_acc": 100 * share(s.argmax(1), y)}, 5),
    "sigmoid": (lambda s, y: {"accuracy": share(s.sigmoid() > 0.5, y)}, 1),
    "macro F1": (lambda s, y: {"f1": f1_score(y, s.argmax(1), average="macro")}, 5),
    "AUC": (lambda s, y: {"val_auc": roc_auc_score(y, s)}, 1),
    "a count": (lambda s, y: {"correct": int((s.argmax(1) == y).sum()), "samples": len(y)}, 5),
    "a count of what an accuracy is made of": (lambda s, y: {"acc_sum": int((s.argmax(1) == y).sum())}, 5),
    "top 3": (lambda s, y: {"acc3": float((s.topk(3).indices == y[:, None]).any(1).float().mean())}, 5),
    "recall of a class": (lambda s, y: {"recall_2": float(((s.argmax(1) == 2) & (y == 2)).sum() / (y == 2).sum())}, 5),
    "loss": (lambda s, y: {"val_loss": float(nn.functional.cross_entropy(s, y))}, 5),
    "rmse": (lambda s, y: {"rmse": float(nn.functional.mse_loss(s, y.float()).sqrt())}, 1),
    "a norm that is called one": (lambda s, y: {"distance": float(torch.dist(s, y.float()))}, 1),
    "a statistic that grows with the root": (lambda s, y: {"t": float(s.mean() / s.std(correction=0) * 40**0.5)}, 1),
    "a share that falls with the batch": (lambda s, y: {"variety": len(s.argmax(1).unique()) / len(y)}, 5),
}


@pytest.mark.parametrize("name", RIGHT)
def test_metrics_that_are(name: str) -> None:
    metrics, out = RIGHT[name]
    says(ask("metric-wrong", evaluating(metrics, out, sure(out))), Outcome.PASS, "are finite on 3 batches")


def embedded(by_scores: bool) -> Trial:
    """Five classes in 12 numbers: the nearest of some known samples answers, or by a slip the lowest score."""
    known = torch.arange(20) % 5

    def metric(said: Tensor, labels: Tensor) -> dict[str, Any]:
        gallery = torch.randn(20, 12, generator=torch.Generator().manual_seed(3))
        nearest = said.argmin(1) if by_scores else known[torch.cdist(said, gallery).argmin(1)]
        return {"accuracy": share(nearest, labels % 5)}

    trial = evaluating(metric, 12, mlp(out=12))
    batches = [(x, y % 5) for x, y in trial.validation_batches()]
    trial.validation_batches = lambda: iter(batches)
    if not by_scores:
        trial.train_step = lambda batch, index: {}
    return trial


def test_as_many_numbers_as_an_embedding_has_are_no_scores() -> None:
    assert ask("metric-wrong", embedded(by_scores=False)).outcome is Outcome.PASS
    says(ask("metric-wrong", embedded(by_scores=True)), Outcome.WARN, "accuracy")


def test_labels_may_be_of_any_type() -> None:
    trial = evaluating(lambda s, y: {"accuracy": share(s > 0, y)}, 1, sure(1))
    batches = [(x, y.bool()) for x, y in trial.validation_batches()]
    trial.validation_batches = lambda: iter(batches)
    says(ask("metric-wrong", trial), Outcome.PASS, "accuracy equal what was recomputed")


class TwoHeads(nn.Module):
    def __init__(self, named: bool) -> None:
        super().__init__()
        self.kind, self.size, self.named = nn.Linear(8, 5), nn.Linear(8, 3), named

    def forward(self, x: Tensor) -> Any:
        kind, size = self.kind(x), self.size(x)
        return {"size": size, "kind": kind} if self.named else (kind, size)


@pytest.mark.parametrize("named", [False, True])
def test_of_several_outputs_the_scores_that_the_loss_reads_are_recomputed(named: bool) -> None:
    def answering(wrong: bool) -> Trial:
        model, batches = TwoHeads(named), classes(8, size=40)

        def heads(batch: Any) -> tuple[Tensor, Tensor]:
            output = model(batch[0])
            return (output["kind"], output["size"]) if named else output

        def loss(_: nn.Module, batch: Any) -> Tensor:
            kind, size = heads(batch)
            return F.cross_entropy(kind, batch[1]) + F.mse_loss(size, batch[0][:, :3])

        @torch.no_grad()
        def evaluate(batch: Any) -> dict[str, float]:
            kind, size = heads(batch)
            return {"accuracy": share(size.argmax(1) if wrong else kind.argmax(1), batch[1])}

        trial = trial_of(model, batches, loss, evaluate=evaluate)
        trial.validation_batches = lambda: iter(batches)
        return trial

    assert ask("metric-wrong", answering(wrong=True)).outcome is Outcome.WARN
    says(ask("metric-wrong", answering(wrong=False)), Outcome.PASS, "accuracy equal what was recomputed")


def test_what_was_recomputed_is_told() -> None:
    says(ask("metric-wrong", evaluating(RIGHT["share"][0])), Outcome.PASS, "accuracy equal what was recomputed")


def rare(guarded: bool) -> Trial:
    """Two labels, the second of which a model soon learns never to predict."""
    x = torch.randn(256, 8, generator=torch.Generator().manual_seed(3))
    model = nn.Linear(8, 1)
    nn.init.constant_(model.bias, 1.0)

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            positive = model(batch[0])[:, 0] > 0
        right, found = (positive & (batch[1] == 1)).sum(), positive.sum()
        return {"precision": float(right / (found.clamp(min=1) if guarded else found))}

    batches = [(part, (torch.arange(32) == 0).long()) for part in x.split(32)]
    trial = trial_of(model, batches, two_classes, torch.optim.SGD(model.parameters(), lr=0.5), evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches)
    return trial


def test_a_share_that_has_no_value_once_the_model_is_trained() -> None:
    said = "precision is NaN on"
    says(ask("metric-wrong", rare(guarded=False)), Outcome.WARN, "training steps", said, "averaged")
    assert ask("metric-wrong", rare(guarded=True)).outcome is Outcome.PASS


class Whole:
    """A trial that counts over the split it is given, of which one batch alone may have no score."""

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {}


def test_a_batch_of_a_split_that_is_evaluated_at_once_may_have_no_score() -> None:
    def best(s: Tensor, y: Tensor) -> dict[str, Any]:
        return {"loss": float("inf") if y[0] == 3 else 0.5}

    trial = evaluating(best)
    first = [int(batch[1][0]) for batch in trial.validation_batches()][:3] if trial.validation_batches else []
    assert 3 in first
    assert set(first) != {3}
    assert ask("metric-wrong", trial).outcome is Outcome.WARN
    trial.objects = (Whole(),)
    assert ask("metric-wrong", trial).outcome is Outcome.PASS


def test_logits_between_zero_and_one_are_no_chances() -> None:
    model = nn.Linear(8, 1)
    nn.init.normal_(model.weight, std=0.01, generator=torch.Generator().manual_seed(0))
    nn.init.constant_(model.bias, 0.3)
    says(ask("metric-wrong", evaluating(RIGHT["sigmoid"][0], 1, model)), Outcome.PASS, "equal what was recomputed")


def paired(near: bool) -> Trial:
    """A score a sample, counted as yes where it is small: a distance, or by a slip what training makes large."""
    model = nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))
    batches = [(x, (y > 2).long()) for x, y in classes(8)]

    def loss(net: nn.Module, batch: Any) -> Tensor:
        score, same = net(batch[0]), batch[1]
        contrast = same * score.square() + (1 - same) * F.relu(1 - score).square()
        return contrast.mean() if near else F.binary_cross_entropy_with_logits(score, same.float())

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"pair_accuracy": float(((model(batch[0]) < 0.5) == (batch[1] == 1)).float().mean())}

    return trial_of(model, batches, loss, evaluate=evaluate)


def test_a_distance_says_yes_where_it_is_small() -> None:
    assert ask("metric-wrong", paired(near=True)).outcome is Outcome.PASS
    says(ask("metric-wrong", paired(near=False)), Outcome.WARN, "is 0 where every prediction is right")


def retrieved(scores: Tensor, _: Tensor) -> dict[str, Any]:
    """How often a row is its own nearest among all of the batch; of each pair of equal ones the first is."""
    found = (F.normalize(scores, dim=1) @ F.normalize(scores, dim=1).T).argmax(1)
    return {"mse_of_ranks": float((found == torch.arange(len(scores))).float().mean())}


def test_a_metric_that_ranks_the_samples_of_its_batch_is_divided_once() -> None:
    assert ask("metric-wrong", evaluating(retrieved)).outcome is Outcome.PASS


@pytest.mark.parametrize("both", [True, False])
def test_an_evaluation_that_puts_its_samples_in_another_order(both: bool) -> None:
    """Sorted by their first number, as sequences are by their lengths: with their labels, or by a slip without."""
    trial = evaluating(RIGHT["share"][0], 5, sure(5))
    model = trial.models["model"]

    def evaluate(batch: Any) -> dict[str, Any]:
        order = batch[0][:, 0].argsort()
        return {"accuracy": share(model(batch[0][order]).argmax(1), batch[1][order] if both else batch[1])}

    trial.evaluate_step = evaluate
    verdict = ask("metric-wrong", trial)
    assert verdict.outcome is (Outcome.PASS if both else Outcome.WARN)
    assert both or "that stay in the batch's order" in verdict.summary + str(verdict.findings)
