"""What the validation of a training run says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.validation_worsens import check as check_validation
from mlcheck.probe.measure.loss.bootstrapped import Bootstrapped
from mlcheck.probe.measure.loss.first_loss import FirstLoss, LossFact
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.memorised_metric import MemorisedMetric
from mlcheck.probe.measure.validation.searched import Searched
from mlcheck.trial.trial import Trial


def evaluated(
    metric: Callable[[nn.Module, Any], dict[str, float]], loss: Any = cross_entropy, model: nn.Module | None = None
) -> Trial:
    model = model or mlp()
    trial = trial_of(model, classes(8), loss, torch.optim.Adam(model.parameters(), lr=3e-3))

    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            found = metric(model, batch)
        model.train()
        return found

    trial.evaluate_step = evaluate
    return trial


def test_a_likelihood_that_is_minimised() -> None:
    def likelihood(model: nn.Module, batch: Any) -> Tensor:
        return model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]).mean()

    trial = evaluated(lambda m, b: {"val_nll": -float(likelihood(m, b))}, likelihood)
    says(ask("validation-worsens", trial), Outcome.WARN, "val_nll rises from", "while the training loss falls", "sign")
    other = evaluated(lambda m, b: {"val_loss": 8.0 - 3 * float(cross_entropy(m, b))})
    says(ask("validation-worsens", other), Outcome.WARN, "on training batches", "how it is computed")


@pytest.mark.parametrize(
    ("metric", "smallest", "outcome"),
    [
        ("deviance", True, Outcome.WARN),
        ("deviance", False, Outcome.SKIP),
        ("psnr", True, Outcome.SKIP),
    ],
)
def test_what_the_search_keeps_the_smallest_of_grows(metric: str, smallest: bool, outcome: Outcome) -> None:
    def likelihood(model: nn.Module, batch: Any) -> Tensor:
        return model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]).mean()

    trial = evaluated(lambda m, b: {metric: -float(likelihood(m, b))}, likelihood)
    trial.searched_metric, trial.searches_smallest = metric, smallest
    assert ask("validation-worsens", trial).outcome is outcome


def triplets(sign: int) -> Trial:
    """A hinge of distances; the metric is the share of triplets whose positive is nearer than the negative."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(5, 8, generator=generator)
    kinds = [torch.randint(5, (32,), generator=generator) for _ in range(6)]

    def near(kind: Tensor) -> Tensor:
        return centres[kind] + 0.7 * torch.randn(32, 8, generator=generator)

    batches = [(near(kind), near(kind), near((kind + 1) % 5)) for kind in kinds]

    def gap(model: nn.Module, batch: Any) -> Tensor:
        anchor, positive, negative = (F.normalize(model(part), dim=1) for part in batch)
        return (anchor - positive).pow(2).sum(1) - (anchor - negative).pow(2).sum(1)

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    trial = trial_of(model, batches, lambda m, b: F.relu(sign * gap(m, b) + 0.3).mean())
    trial.validation_batches = lambda: iter(batches[:2])

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"ranking": float((gap(model, batch) < 0).float().mean())}

    trial.evaluate_step, trial.searched_metric, trial.searches_smallest = evaluate, "ranking", False
    return trial


def test_a_metric_that_falls_on_what_is_learnt_by_heart() -> None:
    searched = Searched("ranking", smallest=False, returned=("ranking",), place=Location())
    fallen = MemorisedMetric.measure(triplets(-1), 60.0)
    verdict = check_validation(ShortRun(), searched, None, fallen)
    says(verdict, Outcome.WARN, "ranking falls from", "16 training samples whose loss", "the search keeps the largest")
    risen = MemorisedMetric.measure(triplets(1), 60.0)
    assert fallen.after < fallen.before < risen.after
    assert check_validation(ShortRun(), searched, None, risen).outcome is Outcome.SKIP
    error = replace(searched, smallest=True)
    assert check_validation(ShortRun(), error, None, fallen).outcome is Outcome.SKIP
    guesses = Bootstrapped(1, ())
    assert check_validation(ShortRun(), searched, None, fallen, guessed=guesses).outcome is Outcome.SKIP
    says(ask("validation-worsens", triplets(-1)), Outcome.WARN, "ranking falls from")
    assert ask("validation-worsens", triplets(1)).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("name", "end", "outcome"),
    [
        ("margin", 0.001, Outcome.WARN),
        ("margin", 0.05, Outcome.SKIP),
        ("margin", 0.0, Outcome.SKIP),  # as of a rare class that a model first learns to leave out
        ("iou", 0.001, Outcome.SKIP),
    ],
)
def test_a_metric_of_any_size_of_which_nothing_is_left(name: str, end: float, outcome: Outcome) -> None:
    searched = Searched(name, smallest=False, returned=(name,), place=Location())
    losses = [0.4 - 0.001 * step for step in range(60)]
    before, after = ([{name: part * value} for part in (1.0, 0.8, 0.9)] for value in (0.16, end))
    run = ShortRun(steps=60, losses=losses, backwards=60, before=before, after=after)
    assert check_validation(run, searched, None, None).outcome is outcome


@pytest.mark.parametrize(
    ("name", "start", "end", "outcome"),
    [
        ("val_mae", 920.0, 919.0, Outcome.WARN),
        ("val_mae", 920.0, 850.0, Outcome.PASS),
        ("error_rate", 0.01, 0.01, Outcome.PASS),  # of a rare class all are denied, before training and after
    ],
)
def test_an_error_in_other_units_than_the_loss(name: str, start: float, end: float, outcome: Outcome) -> None:
    before, after = ([{name: value}] * 2 for value in (start, end))
    run = ShortRun(steps=80, losses=[0.95**step for step in range(80)], backwards=80, before=before, after=after)
    run.on_training = before, after
    loss = LossFact("mse_loss", Location(), "", (8, 1), (8, 1), 1.0, 1.0, None, 1.0, False, 0.0, 1.0, 0.0)
    first = FirstLoss([loss])
    assert check_validation(run, None, None, None, first).outcome is outcome
    assert check_validation(run, None, None, None, None).outcome is Outcome.PASS


def test_validation_that_improves_or_only_overfits_passes() -> None:
    says(ask("validation-worsens", evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, b))})), Outcome.PASS)
    other = classes(8, batches=1, size=32)[0][1].roll(1)
    apart = evaluated(lambda m, b: {"val_loss": float(F.cross_entropy(m(b[0] * 0), other))})
    says(ask("validation-worsens", apart), Outcome.PASS)


@pytest.mark.parametrize(("epochs", "outcome"), [(3.0, Outcome.WARN), (30.0, Outcome.INCONCLUSIVE)])
@pytest.mark.parametrize("formula", [False, True])
def test_a_loss_that_rises_on_others_than_those_seen_many_times(epochs: float, outcome: Outcome, formula: bool) -> None:
    def of(value: float) -> list[dict[str, float]]:
        return [{"val_loss": value}] * 2

    run = ShortRun(steps=80, losses=[0.95**step for step in range(80)], backwards=80, before=of(1.1), after=of(3.6))
    run.epochs, run.on_training = epochs, (of(1.1), of(3.0 if formula else 0.1))
    assert check_validation(run, None, None, None).outcome is (Outcome.WARN if formula else outcome)


@pytest.mark.parametrize(
    ("name", "after", "on_training", "outcome"),
    [
        ("c_index", 0.2, 0.1, Outcome.WARN),
        ("val_roc_auc", 0.3, 0.25, Outcome.WARN),
        ("AUC", 0.3, 0.9, Outcome.SKIP),
        ("concordance", 0.45, 0.45, Outcome.SKIP),
        ("pr_auc", 0.1, 0.1, Outcome.SKIP),
        ("coverage", 0.1, 0.1, Outcome.SKIP),
    ],
)
def test_pairs_that_training_turns_round(name: str, after: float, on_training: float, outcome: Outcome) -> None:
    run = ShortRun(steps=80, losses=[0.95**step for step in range(80)], backwards=80)
    run.before, run.after = [{name: 0.52}] * 2, [{name: after}] * 2
    run.on_training = [{name: 0.51}], [{name: on_training}]
    verdict = check_validation(run, None, None, None)
    assert verdict.outcome is outcome, verdict
    assert ("the wrong way round" in verdict.summary) is (outcome is Outcome.WARN)


def test_nodes_of_one_graph_that_are_told_apart_by_a_mask_may_be_overfitted() -> None:
    """Each batch holds all samples: training takes some, the evaluation the others, of which nothing can be learnt."""
    (x, y), model = classes(8, batches=1)[0], mlp()
    seen = torch.arange(len(y)) < 16

    def fit(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0])[seen], batch[1][seen])

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"val_loss": float(F.cross_entropy(model(batch[0])[~seen], batch[1][~seen]))}

    trial = trial_of(model, [(x, y)] * 4, fit, torch.optim.Adam(model.parameters(), lr=1e-2), evaluate=evaluate)
    says(ask("validation-worsens", trial), Outcome.INCONCLUSIVE, "may be overfitting")


class Attentive(nn.Module):
    """Four places of attention; `rows` masks whole rows of it, `keys` the places that hold nothing, in evaluation."""

    def __init__(self, masked: str) -> None:
        super().__init__()
        self.masked, self.head = masked, nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        places = x.view(len(x), 4, 2)
        empty = (places[..., 0] > 1) & torch.tensor([False, True, True, True])
        scores = places @ places.transpose(1, 2)
        if not self.training:
            scores = scores.masked_fill(empty[:, :, None] if self.masked == "rows" else empty[:, None], -torch.inf)
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        return self.head((weights @ places).flatten(1))


def test_a_validation_loss_that_is_no_number() -> None:
    def attending(masked: str) -> Trial:
        return evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, b))}, model=Attentive(masked))

    says(ask("validation-worsens", attending("rows")), Outcome.FAIL, "val_loss is NaN in", "is the first to give NaN")
    says(ask("validation-worsens", attending("keys")), Outcome.PASS)
    empty = evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, (b[0][:0], b[1][:0])))})
    says(ask("validation-worsens", empty), Outcome.WARN, "val_loss is NaN in")
    sparse = evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, b)), "recall": float("nan")})
    says(ask("validation-worsens", sparse), Outcome.PASS)


def test_an_accuracy_of_one_before_training() -> None:
    def itself(model: nn.Module, batch: Any) -> dict[str, float]:
        predicted = model(batch[0]).argmax(1)
        return {"accuracy": float((predicted == predicted).float().mean())}

    says(ask("metric-impossible", evaluated(itself)), Outcome.WARN, "accuracy is exactly 1 for the untrained model")
    summed = evaluated(lambda m, b: {"acc": float((m(b[0]).argmax(1) != b[1]).sum()) * 100})
    says(ask("metric-impossible", summed), Outcome.WARN, "a share lies between")


def test_a_recall_of_one_may_be_that_of_a_model_that_says_yes_to_all() -> None:
    def yes(model: nn.Module, batch: Any) -> dict[str, float]:
        return {"recall": 1.0, "accuracy": float((model(batch[0]).argmax(1) == batch[1]).float().mean())}

    says(ask("metric-impossible", evaluated(yes)), Outcome.PASS)
    says(ask("metric-impossible", evaluated(lambda m, b: {"recall": 1.0})), Outcome.WARN, "recall is exactly 1")


def test_an_honest_accuracy_passes() -> None:
    honest = evaluated(lambda m, b: {"accuracy": float((m(b[0]).argmax(1) == b[1]).float().mean())})
    says(ask("metric-impossible", honest), Outcome.PASS)
