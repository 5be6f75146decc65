"""Metric code: wrong in the ways it is usually wrong, and right in many ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.metric_wrong import judge_printed
from mlcheck.probe.measure.validation.printed_metrics import PrintedMetrics
from mlcheck.probe.measure.validation.printed_text import Printed, metrics_in
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


def share(predicted: Tensor, truth: Tensor) -> float:
    return float((predicted == truth).float().mean())


WRONG: dict[str, tuple[Metrics, int, str]] = {
    "argmax over samples": (lambda s, y: {"acc": share(s.argmax(0)[torch.arange(40) % 5], y)}, 5, "where the model's"),
    "threshold of probabilities on logits": (lambda s, y: {"val_accuracy": share(s > 0.5, y)}, 1, "recomputed"),
    "fixed batch size": (lambda s, y: {"accuracy": int((s.argmax(1) == y).sum()) / 64}, 5, "depends on the batch size"),
    "fixed batch size, of one head": (
        lambda s, y: {"digit_accuracy": int((s.argmax(1) == y).sum()) / 64},
        5,
        "digit_accuracy depends on the batch size",
    ),
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
    "a share that falls with the batch": (lambda s, y: {"variety": len(s.argmax(1).unique()) / len(y)}, 5),
}


@pytest.mark.parametrize("name", RIGHT)
def test_metrics_that_are(name: str) -> None:
    metrics, out = RIGHT[name]
    says(ask("metric-wrong", evaluating(metrics, out, sure(out))), Outcome.PASS, "are finite on 3 batches")


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


def printed(kind: str, right: str, wrong: str, low: str = "", both: bool = True) -> PrintedMetrics:
    """What a script prints of right and of wrong predictions, and of scores below every threshold."""

    def told(*values: str) -> tuple[Printed, ...]:
        return tuple(metrics_in([f"val_{kind} {values[0]}"], [f"val_{kind} {values[1]}"]))

    lowered = told(low, wrong) if low else ()
    return PrintedMetrics(told(right, wrong), 3, 96, (1.0,), Location(), lowered=lowered, both_in_all=both)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (printed("auc", "1.000", "0.000", "0.500"), "computed from decisions, not from scores"),
        (printed("f1", "0.165", "0.020"), "f1 is printed as 0.165 where every prediction is right"),
    ],
)
def test_a_printed_metric_that_falls_short(seen: PrintedMetrics, said: str) -> None:
    says(judge_printed(seen), Outcome.WARN, said)


@pytest.mark.parametrize(
    "seen",
    [printed("auc", "1.000", "0.000", "1.000"), printed("f1", "0.61", "0.0", both=False), printed("f1", "1", "0")],
)
def test_a_printed_metric_that_need_not_be_one(seen: PrintedMetrics) -> None:
    says(judge_printed(seen), Outcome.PASS, "follows the outputs")


def test_a_metric_that_ignores_its_outputs_beside_one_that_does_not() -> None:
    def judge(name: str) -> Outcome:
        lines = [f"epoch 3 {name} 0.165 auc {auc}" for auc in ("1.00", "0.00")]
        return judge_printed(
            PrintedMetrics(tuple(metrics_in(*([line] for line in lines))), 3, 96, (1.0,), Location())
        ).outcome

    assert judge("f1") is Outcome.WARN
    assert judge("accuracy") is Outcome.PASS


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


@pytest.mark.parametrize("name", ALIKE)
def test_a_share_that_is(name: str) -> None:
    says(ask("metric-wrong", masked(ALIKE[name])), Outcome.PASS, "finite on 3 batches")


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


def test_a_class_that_no_mask_holds_may_count_as_nothing() -> None:
    def mean(scores: Tensor, mask: Tensor) -> dict[str, Any]:
        parts = [overlap(scores, mask, k) for k in range(3)]
        return {"miou": sum(inter / (union + 1e-6) for inter, union in parts) / 3}

    trial = masked(mean, classes=3)
    batches = [(x, mask.clamp(max=1)) for x, mask in trial.train_batches()]
    trial.validation_batches = lambda: iter(batches)
    assert ask("metric-wrong", trial).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("training", "validation", "name", "outcome"),
    [
        ("mean", "sum", "val_loss", Outcome.WARN),
        ("mean", "sum", "mse_euro", Outcome.WARN),
        ("mean", "mean", "mse_euro", Outcome.PASS),
        ("mean", "sum", "valid.mae", Outcome.WARN),
        ("mean", "mean", "val_loss", Outcome.PASS),
        ("sum", "sum", "val_loss", Outcome.PASS),
        ("mean", "sum", "squares", Outcome.PASS),
    ],
)
def test_a_loss_that_is_summed_in_validation_alone(training: str, validation: str, name: str, outcome: Outcome) -> None:
    model = mlp(out=1)

    def squares(net: nn.Module, batch: Any, reduction: str = training) -> Tensor:
        return nn.functional.mse_loss(net(batch[0])[:, 0], batch[1].float(), reduction=reduction)

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {name: float(squares(model, batch, validation))}

    verdict = ask("metric-wrong", trial_of(model, classes(8), squares, evaluate=evaluate))
    assert verdict.outcome is outcome, verdict.summary
    assert outcome is Outcome.PASS or "depends on the batch size" in verdict.summary


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
