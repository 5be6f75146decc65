"""Simple models on the user's splits, and whether labels go with their inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed
from label_programs import clusters
from probe_programs import Asked, Loss, ask, cross_entropy, mlp, says, trial_on
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from table_programs import classified, numbers, rare, standard
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.baseline_not_beaten import check as judge
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.baselines import Baselines
from mlcheck.trial.trial import Trial


def shuffled(data: TensorDataset, seed: int = 0) -> TensorDataset:
    x, y = data.tensors
    return TensorDataset(x, y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))])


def renamed(data: TensorDataset) -> TensorDataset:
    x, y = data.tensors
    return TensorDataset(x, (y + 1) % 5)


def test_training_labels_in_another_order() -> None:
    verdict = ask("labels-unrelated", trial_on(shuffled(clusters()), clusters(300, seed=2)))
    says(verdict, Outcome.WARN, "training labels are unrelated to their inputs", "while in validation they do")


def test_classes_numbered_differently_in_validation() -> None:
    verdict = ask("labels-unrelated", trial_on(clusters(), renamed(clusters(300, seed=2))))
    says(verdict, Outcome.WARN, "labels mean something else in validation")


def windows(first: int, last: int) -> TensorDataset:
    """A price that wanders around 0, then around 40: a few days, and the day after them."""
    steps = torch.randn(1200, generator=torch.Generator().manual_seed(0))
    price = torch.stack([steps[max(0, day - 30) : day + 1].sum() for day in range(1200)]) + 40.0 * (
        torch.arange(1200) >= 800
    )
    days = torch.stack([price[day : day + 11] for day in range(first, last)])
    return TensorDataset(days[:, :10].clone(), days[:, 10:].clone())


@pytest.mark.parametrize(("turned", "moved"), [(False, True), (False, False), (True, False)])
def test_a_series_that_has_moved_on_has_other_neighbours(turned: bool, moved: bool) -> None:
    def loss(model: Any, batch: Any) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[1])

    later = windows(850, 1150) if moved else windows(500, 780)
    x, y = later.tensors
    held_out = TensorDataset(x, -y if turned else y)
    verdict = ask("labels-unrelated", trial_on(windows(0, 480), held_out, model=mlp(10, 1), loss=loss))
    assert ("mean something else in validation" in verdict.summary) is turned, verdict.summary or verdict.reason


def test_a_label_below_zero_stands_for_none() -> None:
    x, y = clusters(900).tensors
    unknown = y.clone()
    unknown[::5] = -1
    coded = torch.cat([x, torch.where(unknown < 0, torch.rand(len(y)), unknown.float())[:, None]], 1)

    def loss(model: Any, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1], ignore_index=-1)

    plain = trial_on(TensorDataset(x, unknown), clusters(300, seed=2), loss=loss)
    says(ask("labels-unrelated", plain), Outcome.PASS)
    assert ask("target-in-input", plain).outcome is Outcome.PASS
    leaking = trial_on(TensorDataset(coded, unknown), model=mlp(coded.shape[1]), loss=loss)
    says(ask("target-in-input", leaking), Outcome.WARN, "one value for each class")


def scored(training: TensorDataset | Changed, validation: TensorDataset | Changed, loss: Loss = cross_entropy) -> Trial:
    """A program that reports its accuracy."""
    trial = trial_on(training, validation, loss=loss)
    model = trial.models["model"]

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"accuracy": float((model(batch[0]).argmax(1) == batch[1]).double().mean())}

    trial.evaluate_step = evaluate
    return trial


def test_labels_that_nothing_tells() -> None:
    both = shuffled(clusters(900)), shuffled(clusters(300, seed=2))
    verdict = ask("labels-unrelated", scored(*both))
    says(verdict, Outcome.WARN, "nothing tells the labels", "the nearest neighbour", "yours after")
    assert ask("labels-unrelated", trial_on(*both)).outcome is Outcome.INCONCLUSIVE  # its own accuracy is not known
    says(ask("labels-unrelated", scored(clusters(900), clusters(300, seed=2))), Outcome.PASS)


def test_labels_that_nothing_tells_though_training_is_augmented() -> None:
    def jittered(data: TensorDataset) -> Changed:
        return Changed(data, lambda _, s: (s[0] + 0.3 * torch.randn(8), s[1]))

    def erased(data: TensorDataset) -> Changed:
        return Changed(data, lambda _, s: (torch.randn(8), s[1]))

    unrelated, held_out = shuffled(clusters(900)), shuffled(clusters(300, seed=2))
    says(ask("labels-unrelated", scored(jittered(unrelated), held_out)), Outcome.WARN, "nothing tells the labels")
    for training, validation in (
        (jittered(clusters(900)), clusters(300, seed=2)),
        (erased(clusters(900)), clusters(300, seed=2)),
        (erased(clusters(900)), erased(clusters(300, seed=2))),
    ):
        assert ask("labels-unrelated", scored(training, validation)).outcome is not Outcome.WARN


def test_labels_that_only_the_model_tells_are_left_open() -> None:
    """The parity of eight signs among noise: neighbours and lines see nothing, a network may."""

    def parity(seed: int) -> TensorDataset:
        x = torch.randn(900, 8, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(x, (x[:, :2] > 0).sum(1) % 2)

    assert ask("labels-unrelated", scored(parity(1), parity(2))).outcome is not Outcome.WARN


@pytest.mark.parametrize(
    ("trial", "outcome"),
    [
        (lambda: trial_on(clusters(), clusters(seed=2)), Outcome.PASS),
        (lambda: trial_on(clusters(spread=8.0), clusters(seed=2, spread=8.0)), Outcome.PASS),
        (lambda: trial_on(shuffled(clusters()), shuffled(clusters(seed=2))), Outcome.INCONCLUSIVE),
        (lambda: trial_on(shuffled(clusters())), Outcome.INCONCLUSIVE),
        (lambda: trial_on(shuffled(clusters(120)), clusters(800, seed=2)), Outcome.INCONCLUSIVE),
        (lambda: trial_on(Changed(clusters(), lambda _, s: (torch.randn(8), s[1])), clusters(seed=2)), None),
    ],
    ids=["clusters", "overlapping", "nothing to see", "no validation", "small training set", "augmented away"],
)
def test_labels_that_go_with_inputs_or_cannot_be_seen_to(trial: Any, outcome: Outcome | None) -> None:
    found = ask("labels-unrelated", trial()).outcome
    assert found in ({outcome} if outcome else {Outcome.PASS, Outcome.INCONCLUSIVE})


def digits() -> tuple[TensorDataset, TensorDataset]:
    x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    return TensorDataset(x[:900].float(), y[:900]), TensorDataset(x[900:1300].float(), y[900:1300])


def test_scores_are_those_of_scikit_learn() -> None:
    training, validation = digits()
    asked = Asked(classified(*training.tensors, validation=validation))
    verdict = asked.verdict("baseline-not-beaten")
    says(verdict, Outcome.INCONCLUSIVE, "accuracy on 400 validation samples", "the nearest neighbour")
    x, y = training.tensors
    by = x.std(0, correction=0).clamp_min(1e-9)
    rows, held_out = (x - x.mean(0)) / by, (validation.tensors[0] - x.mean(0)) / by
    linear = RidgeClassifier(alpha=0.64).fit(rows, y).score(held_out, validation.tensors[1])
    nearest = KNeighborsClassifier(1).fit(rows, y).score(held_out, validation.tensors[1])
    assert verdict.numbers["linear"] == pytest.approx(linear, abs=0.02)
    assert verdict.numbers["nearest neighbour"] == pytest.approx(nearest, abs=0.005)


def test_a_regression_is_scored_by_its_share_of_variance() -> None:
    x, y = (torch.as_tensor(part).float() for part in load_diabetes(return_X_y=True))
    x, y = standard(x), standard(y[:, None])[:, 0]

    def loss(model: Any, batch: Any) -> Tensor:
        return torch.nn.functional.mse_loss(model(batch[0])[:, 0], batch[1])

    trial = trial_on(TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:]), mlp(10, 1), loss)
    verdict = ask("baseline-not-beaten", trial)
    says(verdict, Outcome.INCONCLUSIVE, "the R² of the program itself was not measured")
    assert "R² on 142 validation samples: the mean" in verdict.summary
    assert 0.3 < verdict.numbers["linear"] < 0.7


def test_what_has_no_single_target_is_left_to_a_person() -> None:
    trial = classified(numbers(), rare(0.5, 600))
    assert ask("baseline-not-beaten", trial).outcome is Outcome.SKIP


FOUND = Baselines("accuracy", 0.1, 0.9, 0.95, 900, 400)


@pytest.mark.parametrize(
    ("losses", "accuracy", "outcome"),
    [
        ([2.3] * 20 + [0.1] * 40, 0.11, Outcome.WARN),
        ([2.3] * 20 + [0.1] * 40, 11.0, Outcome.WARN),
        ([2.3] * 20 + [0.1] * 40, 0.3, Outcome.PASS),
        ([2.3] * 20 + [1.9] * 40, 0.1, Outcome.INCONCLUSIVE),
        ([2.3] * 10 + [0.1] * 10, 0.1, Outcome.INCONCLUSIVE),
        ([2.3] * 20 + [float("nan")] * 40, 0.1, Outcome.INCONCLUSIVE),
    ],
    ids=["by heart", "in percent", "better", "slow", "short", "diverged"],
)
def test_a_training_that_carries_nothing_over(
    losses: list[float], accuracy: float, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = judge.__globals__
    monkeypatch.setitem(where, "examples", lambda *_: object())
    monkeypatch.setitem(where, "baselines", lambda *_: FOUND)
    run = ShortRun(steps=len(losses), losses=losses, after=[{"val_accuracy": accuracy}])
    passes: Any = type("P", (), {"training": None, "validation": object()})
    verdict = judge(passes, None, run)  # type: ignore[arg-type]
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert verdict.reason.endswith("it is at 0.100, where the commonest class has 0.100")
    if outcome is Outcome.WARN:
        says(verdict, Outcome.WARN, "no better than the commonest class (0.100)", "the nearest neighbour has 0.950")


@pytest.mark.parametrize(
    ("on_training", "told"),
    [
        (0.01, "the loss has a wrong sign"),
        (0.97, "validation has its labels in another order"),
        (None, "the labels of the two"),
    ],
)
def test_answers_below_chance_tell_what_is_upside_down(
    on_training: float | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, rare = judge.__globals__, replace(FOUND, rarest=0.08)
    monkeypatch.setitem(where, "examples", lambda *_: object())
    monkeypatch.setitem(where, "baselines", lambda *_: rare)
    seen: Any = ([], [{"val_accuracy": on_training}] if on_training is not None else [])
    run = ShortRun(steps=60, losses=[2.3] * 20 + [0.1] * 40, after=[{"val_accuracy": 0.005}], on_training=seen)
    passes: Any = type("P", (), {"training": None, "validation": object()})
    says(judge(passes, None, run), Outcome.WARN, "below any answer that ignores the input", told)  # type: ignore[arg-type]


def of_torch(model: Any, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0])[:, 0], batch[1])


def by_hand(model: Any, batch: Any) -> Tensor:
    return ((model(batch[0]).squeeze(1) - batch[1]) ** 2).mean()


def measured(x: Tensor, y: Tensor, cut: int = 900, loss: Any = of_torch) -> Trial:
    """A regression that is evaluated by the loss that it is trained on."""

    parts = TensorDataset(x[:cut], y[:cut]), TensorDataset(x[cut:], y[cut:])
    trial = trial_on(*parts, model=mlp(x.shape[1], 1), loss=loss)
    model = trial.models["model"]

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"val_error": float(loss(model, batch))}

    trial.evaluate_step = evaluate
    return trial


@pytest.mark.parametrize("loss", [of_torch, by_hand])
def test_targets_that_nothing_tells(loss: Any) -> None:
    x = numbers(1300)
    y = x[:, 0].abs() + x[:, 1] * x[:, 2]
    shuffle = torch.randperm(1300, generator=torch.Generator().manual_seed(3))
    verdict = ask("labels-unrelated", measured(x, y[shuffle], loss=loss))
    says(verdict, Outcome.WARN, "nothing tells the targets", "a linear model")
    assert ask("labels-unrelated", measured(x, y, loss=loss)).outcome is not Outcome.WARN
    codes = measured(x.sign(), y[shuffle], loss=loss)
    assert ask("labels-unrelated", codes).outcome is not Outcome.WARN  # codes, not numbers


def test_an_output_that_is_no_answer_to_the_targets() -> None:
    x = numbers(1300)
    y = 50 + torch.randn(1300, generator=torch.Generator().manual_seed(3))

    def ranks(model: Any, batch: Any) -> Tensor:
        risk = model(batch[0])[:, 0]
        later = batch[1][None] >= batch[1][:, None]
        return (torch.where(later, risk[None], -torch.inf).logsumexp(1) - risk).mean()

    assert ask("labels-unrelated", measured(x, y, loss=ranks)).outcome is not Outcome.WARN


def focal(model: nn.Module, batch: Any) -> Tensor:
    chances = model(batch[0]).softmax(1)
    chosen = chances[torch.arange(len(chances)), batch[1]]
    return -((1 - chosen) ** 2 * chosen.log()).mean()


def test_labels_of_a_loss_written_by_hand_are_labels_too() -> None:
    both = shuffled(clusters(900)), shuffled(clusters(300, seed=2))
    says(ask("labels-unrelated", scored(*both, loss=focal)), Outcome.WARN, "nothing tells the labels")
    told = scored(clusters(900), clusters(300, seed=2), loss=focal)
    says(ask("labels-unrelated", told), Outcome.PASS, "of nearest neighbours share a label")


def test_numbers_of_samples_that_a_loss_looks_up_are_no_labels() -> None:
    """A memory with a row for each sample is asked by the sample's number."""
    x, memory = torch.randn(400, 8), torch.randn(400, 5)

    def recalled(model: nn.Module, batch: Any) -> Tensor:
        return -(F.normalize(model(batch[0])) * F.normalize(memory[batch[1]])).sum(1).mean()

    numbered = TensorDataset(x, torch.arange(400))
    assert ask("labels-unrelated", trial_on(numbered, numbered, loss=recalled)).outcome is not Outcome.WARN


@pytest.mark.parametrize(("order", "outcome"), [("shuffled", Outcome.WARN), ("kept", Outcome.PASS)])
def test_tags_of_other_samples(order: str, outcome: Outcome) -> None:
    """A yes or no for each of five tags, trained with a binary cross-entropy; in validation they are the samples'."""

    def tagged(data: TensorDataset) -> TensorDataset:
        return TensorDataset(
            data.tensors[0], (F.one_hot(data.tensors[1], 5) + F.one_hot(0 * data.tensors[1], 5)).clamp(max=1).float()
        )

    def loss(model: Any, batch: Any) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(batch[0]), batch[1])

    training = tagged(shuffled(clusters()) if order == "shuffled" else clusters())
    says(ask("labels-unrelated", trial_on(training, tagged(clusters(300, seed=2)), loss=loss)), outcome)
