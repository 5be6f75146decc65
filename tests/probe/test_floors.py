"""Floors of the losses, against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import trial_of
from torch import Tensor, nn

from mlcheck.probe.measure.loss.floors import confusion_floor, floors, lowest, mean_loss
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.training.overfit import Overfit


def seen(function: object, *args: Tensor, **options: object) -> LossCall:
    with LossWatch() as watch:
        function(*args, **options)  # type: ignore[operator]
    return watch.calls[0]


def test_entropy_of_labels() -> None:
    call = seen(F.cross_entropy, torch.zeros(4, 3), torch.tensor([0, 0, 1, 2]))
    found = floors(call, 4)
    assert found is not None
    assert found.constant == pytest.approx(1.5 * math.log(2))
    assert found.irreducible == pytest.approx(0, abs=1e-12)
    assert found.target == pytest.approx(0.15 * math.log(2))


def test_ignored_labels_and_class_weights() -> None:
    target = torch.tensor([0, 1, 1, 255])
    weight = torch.tensor([2.0, 1.0])
    found = floors(seen(F.cross_entropy, torch.zeros(4, 2), target, weight=weight, ignore_index=255), 4)
    assert found is not None
    assert found.constant == pytest.approx(math.log(2))


def test_smoothed_labels_cannot_be_met() -> None:
    found = floors(seen(F.cross_entropy, torch.zeros(2, 2), torch.tensor([0, 1]), label_smoothing=0.2), 2)
    assert found is not None
    assert found.constant == pytest.approx(math.log(2))
    assert found.irreducible == pytest.approx(-0.9 * math.log(0.9) - 0.1 * math.log(0.1))


@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_binary_floor_is_the_best_constant(gain: float) -> None:
    target = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    call = seen(F.binary_cross_entropy_with_logits, torch.zeros(4, 1), target, pos_weight=torch.tensor([gain]))
    found = floors(call, 4)
    assert found is not None
    grid = [
        float(F.binary_cross_entropy_with_logits(torch.full((4, 1), z), target, pos_weight=torch.tensor([gain])))
        for z in torch.linspace(-3, 3, 601).tolist()
    ]
    assert found.constant == pytest.approx(min(grid), abs=1e-4)
    assert found.irreducible == pytest.approx(0, abs=1e-12)


def test_variance_of_targets() -> None:
    found = floors(seen(F.mse_loss, torch.zeros(2, 1), torch.tensor([[1.0], [3.0]])), 2)
    assert found is not None
    assert found.constant == pytest.approx(1.0)


def test_the_loss_is_a_mean_whatever_the_reduction() -> None:
    logits, target = torch.randn(8, 3), torch.randint(3, (8,))
    call = seen(F.cross_entropy, logits, target, reduction="sum")
    assert mean_loss(call) == pytest.approx(float(F.cross_entropy(logits, target)))


def test_identical_inputs_with_different_labels() -> None:
    inputs = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    call = seen(F.cross_entropy, torch.zeros(4, 2), torch.tensor([0, 1, 1, 1]))
    assert confusion_floor([inputs], call, 4) == pytest.approx(math.log(2) / 2)


def test_beginnings_alike_cost_what_their_next_tokens_do_over_the_labels_that_count() -> None:
    """Two words that part at their first letter, and padding behind the shorter one that no loss looks at."""
    words = torch.tensor([[0, 1, 2], [0, 3, 0]])
    labels = torch.tensor([[1, 2, 4], [3, -1, -1]])
    call = seen(F.cross_entropy, torch.zeros(6, 5), labels.reshape(-1), ignore_index=-1)
    assert confusion_floor([words], call, 2) == pytest.approx(2 * math.log(2) / 4)


def test_the_labels_that_a_model_is_given_for_its_loss_tell_nothing_apart() -> None:
    """As of a small GPT: what one letter leads to is in doubt, whether the model computes its loss or not."""

    class Next(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(9, 16), nn.Linear(16, 9)

        def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(self.head(self.table(tokens)).flatten(0, 1), labels.flatten(), ignore_index=-1)

    letter = torch.arange(8) % 4
    tokens = torch.stack([torch.zeros_like(letter), letter], 1)
    labels = torch.stack([letter, letter + 4], 1)
    trial = trial_of(Next(), [(tokens, labels)], lambda model, batch: model(*batch))
    found = Overfit.measure(trial, 30.0).floors
    assert found is not None
    assert found.irreducible == pytest.approx(math.log(4) / 2)


def test_labels_out_of_range_have_no_floor() -> None:
    call = LossCall("cross_entropy", torch.zeros(2, 2), torch.tensor([0, 2]), {"ignore_index": -100})
    assert floors(call, 2) is None


@pytest.mark.parametrize("made_by", [torch.softmax, lambda x, _: torch.sigmoid(x)], ids=("softmax", "sigmoid"))
def test_a_squashed_input_has_a_lowest_cross_entropy(made_by: Any) -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    call = seen(F.cross_entropy, made_by(logits, 1), torch.tensor([0, 1, 2, 0]))
    assert lowest(call) == pytest.approx(math.log(1 + 2 / math.e))


def test_targets_beyond_a_sigmoid_cost_their_distance() -> None:
    call = seen(F.mse_loss, torch.randn(2, 1, requires_grad=True).sigmoid(), torch.tensor([[3.0], [0.5]]))
    assert lowest(call) == pytest.approx(2.0)


def test_logits_have_no_lowest_loss() -> None:
    assert lowest(seen(F.cross_entropy, torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0]))) is None
