"""Worst predictions and suspicious labels: what is planted in the data is what is shown."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, cross_entropy, mlp, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.validation.predictions import each
from mlcheck.trial.trial import Trial

WORST, SUSPECT = "worst-predictions-unseen", "label-errors-unreviewed"
WRONG = (3, 40, 77)


def apart(count: int = 160, wrong: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    """Four classes that nobody could confuse, with some labels changed."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (count,), generator=generator)
    inputs = 0.3 * torch.randn(count, 8, generator=generator)
    inputs[torch.arange(count), labels] += 4
    for place in wrong:
        labels[place] = (labels[place] + 1) % 4
    return inputs, labels


def batches(data: tuple[Tensor, Tensor]) -> list[Any]:
    return list(zip(data[0].split(32), data[1].split(32)))


def learning(validation: tuple[Tensor, Tensor], evaluate: Any = None) -> Trial:
    trial = trial_of(mlp(8, 4), batches(apart()), cross_entropy, evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches(validation))
    return trial


def test_the_wrong_labels_are_the_worst_predictions() -> None:
    data = apart(96, WRONG)
    verdict = ask(WORST, learning(data))
    assert verdict.outcome is Outcome.PENDING
    assert verdict.looked_at == 96
    table, confusion = verdict.figures
    told = [row[0] for row in table.data["rows"]]
    rows = {tuple(row[1:]) for row in table.data["rows"][:3]}
    assert rows == {tuple(f"{v:.4g}" for v in data[0][place].tolist()) for place in WRONG}
    label = int(data[1][WRONG[0]])
    assert any(one.startswith(f"{label}, says {(label - 1) % 4} (") for one in told[:3])
    assert sum(map(sum, confusion.data["values"])) == 96


def test_an_evaluation_that_only_counts_hits_is_read_by_its_output() -> None:
    trial = learning(apart(64, (7,)))
    model = trial.models["model"]

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"accuracy": float((model(batch[0]).argmax(1) == batch[1]).float().mean())}

    trial.evaluate_step = evaluate
    verdict = ask(WORST, trial)
    assert verdict.outcome is Outcome.PENDING
    assert ", loss " in verdict.figures[0].data["rows"][0][0]


@pytest.mark.parametrize(("answers", "outcome"), [(1.0, Outcome.PENDING), (0.0, Outcome.SKIP)])
def test_an_evaluation_that_adds_up_squared_errors_is_read_by_its_output(answers: float, outcome: Outcome) -> None:
    """Numbers, not the yes and no of two classes."""
    x = torch.randn(160, 8, generator=torch.Generator().manual_seed(0))
    y = x[:, :1] * answers + (x[:, 1:2] > 0)
    net = nn.Linear(8, 1)

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"rmse": float(((net(batch[0]) - batch[1]) ** 2).mean().sqrt())}

    trial = trial_of(net, batches((x, y)), lambda m, b: F.mse_loss(m(b[0]), b[1]), evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches((x, y)))
    verdict = ask(WORST, trial)
    assert verdict.outcome is outcome
    assert verdict.looked_at == (160 if outcome is Outcome.PENDING else 0)


@pytest.mark.parametrize(("name", "kind"), [("lenet", "images"), ("lstm", "text"), ("regression", "table")])
def test_samples_are_shown_as_what_they_are(name: str, kind: str) -> None:
    verdict = ask(WORST, SOUND[name]())
    assert verdict.outcome is Outcome.PENDING
    assert verdict.figures[0].kind == kind


@pytest.mark.parametrize("kind", ["classes", "logits", "pictures", "flat"])
def test_masks_and_pictures_are_shown_beside_what_came_out(kind: str) -> None:
    """One sample's mask is wrong: it comes first, and its label and the output are different pictures."""
    x = torch.zeros(24, 1, 8, 8)
    x[:, :, 2:6, 2:6] = 1
    mask = (x > 0.5).float()
    mask[5] = 1 - mask[5]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        out, target = model(batch[0]), batch[1]
        if kind == "classes":
            return F.cross_entropy(torch.cat([1 - out, out], dim=1), target[:, 0].long())
        if kind == "logits":
            return F.binary_cross_entropy_with_logits(out, target)
        return F.mse_loss(out.flatten(1), target.flatten(1)) if kind == "flat" else F.mse_loss(out, target)

    trial = trial_of(
        nn.Conv2d(1, 1, 1), [(x[8:], mask[8:])] * 4, loss, torch.optim.Adam(nn.Conv2d(1, 1, 1).parameters())
    )
    model = trial.models["model"]
    with torch.no_grad():
        model.weight.fill_(4.0)
        model.bias.fill_(-2.0)
    trial.validation_batches = lambda: iter([(x[:12], mask[:12])])
    (figure,) = ask(WORST, trial).figures
    assert figure.title.endswith("input, label, output")
    first, label, output = figure.data["tiles"][:3]
    assert first["caption"].startswith("sample 5, loss")
    assert (label["caption"], output["caption"]) == ("label", "output")
    assert label["png"] != output["png"]
    if kind == "classes":
        assert output["png"] == figure.data["tiles"][5]["png"] == figure.data["tiles"][4]["png"]


def test_what_has_several_losses_a_batch_is_left_out() -> None:
    assert ask(WORST, SOUND["gan"]()).outcome is Outcome.SKIP


def test_the_model_is_put_back() -> None:
    trial = learning(apart(64))
    before = [p.detach().clone() for p in trial.models["model"].parameters()]
    ask(WORST, trial)
    assert all(torch.equal(p, then) for p, then in zip(trial.models["model"].parameters(), before))


@pytest.mark.parametrize(
    ("loss", "shapes", "options"),
    [
        (F.cross_entropy, ((6, 3), (6,)), {"weight": torch.tensor([1.0, 2.0, 0.5])}),
        (F.cross_entropy, ((6, 3, 5), (6, 5)), {"ignore_index": 1}),
        (F.cross_entropy, ((30, 3), (30,)), {"label_smoothing": 0.1}),
        (F.mse_loss, ((6, 2), (6, 2)), {}),
        (F.huber_loss, ((6,), (6,)), {"delta": 0.5}),
        (F.binary_cross_entropy_with_logits, ((6, 4), (6, 4)), {"pos_weight": torch.full((4,), 2.0)}),
    ],
)
def test_a_sample_s_loss_is_the_loss_of_that_sample(loss: Any, shapes: Any, options: dict[str, Any]) -> None:
    given = torch.randn(shapes[0])
    classes = loss is F.cross_entropy
    target = torch.randint(3, shapes[1]) if classes else torch.rand(shapes[1])
    with LossWatch() as watch:
        loss(given, target, **options)
    found = each(watch.calls[0], 6)
    assert found is not None
    step = len(given) // 6
    for place, mine in enumerate(found):
        rows = slice(place * step, (place + 1) * step)
        alone = loss(given[rows], target[rows], reduction="none", **options).mean()
        assert mine == pytest.approx(float(alone), rel=1e-4)


def test_a_loss_that_broadcasts_cannot_be_told_apart() -> None:
    with LossWatch() as watch, pytest.warns(UserWarning, match="broadcast"):
        F.mse_loss(torch.randn(6, 1), torch.randn(6))
    assert each(watch.calls[0], 6) is None


def test_the_wrong_labels_are_the_suspicious_ones() -> None:
    data = apart(320, WRONG)
    trial = trial_of(mlp(8, 4), batches(data), cross_entropy)
    verdict = ask(SUSPECT, trial)
    assert verdict.outcome is Outcome.PENDING
    assert verdict.summary.startswith("3 of ")
    captions = [row[0] for row in verdict.figures[0].data["rows"]]
    assert captions == [f"{int(data[1][p])}, neighbours {(int(data[1][p]) - 1) % 4}" for p in WRONG]


@pytest.mark.parametrize(
    "trial",
    [lambda: trial_of(mlp(8, 4), batches(apart(320)), cross_entropy), SOUND["regression"], SOUND["mlp"]],
    ids=["none wrong", "no classes", "classes that inputs do not tell apart"],
)
def test_where_no_label_stands_out_there_is_nothing_to_show(trial: Any) -> None:
    verdict = ask(SUSPECT, trial())
    assert verdict.outcome is Outcome.SKIP
    assert verdict.reason
