"""Labels that a simple model denies in training far more often than in validation, and what looks like it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed
from probe_programs import ask, mlp, says, trial_on
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def tagged(count: int, seed: int, noise: float = 0.0, tags: int = 6) -> TensorDataset:
    """Each tag is a direction in ten dimensions, of which `noise` are flipped."""
    directions = torch.randn(10, tags, generator=torch.Generator().manual_seed(9))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 10, generator=generator)
    y = (x @ directions > 0).float()
    return TensorDataset(x, torch.where(torch.rand(y.shape, generator=generator) < noise, 1 - y, y))


def on_tags(training: Dataset[tuple[Tensor, Tensor]], held_out: TensorDataset) -> Trial:
    return trial_on(training, held_out, mlp(10, 6), lambda m, b: F.binary_cross_entropy_with_logits(m(b[0]), b[1]))


def classed(count: int, seed: int, exchanged: float = 0.0) -> TensorDataset:
    """Eight classes that a line parts, of which `exchanged` of the second and the fifth have each other's label."""
    centres = 3 * torch.randn(8, 10, generator=torch.Generator().manual_seed(9))
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 8
    x = centres[y] + 1.6 * torch.randn(count, 10, generator=generator)
    some, labels = torch.rand(count, generator=generator) < exchanged, y.clone()
    labels[(y == 1) & some], labels[(y == 4) & some] = 4, 1
    return TensorDataset(x, labels)


def on_classes(training: TensorDataset, held_out: TensorDataset) -> Trial:
    return trial_on(training, held_out, mlp(10, 8), lambda m, b: F.cross_entropy(m(b[0]), b[1]))


def test_tags_that_are_flipped_in_training() -> None:
    verdict = ask("label-noise", on_tags(tagged(800, 1, noise=0.25), tagged(400, 2)))
    says(verdict, Outcome.WARN, "of the labels in training", "in validation")


def test_two_classes_that_are_taken_for_each_other_in_training() -> None:
    verdict = ask("label-noise", on_classes(classed(1200, 1, exchanged=0.45), classed(600, 2)))
    says(verdict, Outcome.WARN, "of class 1 in training, most for class 4")


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_few_flipped_tags(noise: float) -> None:
    assert ask("label-noise", on_tags(tagged(800, 1, noise), tagged(400, 2))).outcome is not Outcome.WARN


def test_tags_that_are_as_noisy_in_validation() -> None:
    assert ask("label-noise", on_tags(tagged(800, 1, 0.25), tagged(400, 2, 0.25))).outcome is not Outcome.WARN


def test_training_samples_that_are_made_harder_when_they_are_read() -> None:
    hard = Changed(tagged(800, 1), lambda _, sample: (sample[0] + 2 * torch.randn(10), sample[1]))
    assert ask("label-noise", on_tags(hard, tagged(400, 2))).outcome is not Outcome.WARN


def test_classes_that_mix_in_both() -> None:
    wide = [
        TensorDataset(3 * one.tensors[0] + 9 * torch.randn(len(one), 10), one.tensors[1])
        for one in (classed(1200, 1), classed(600, 2))
    ]
    assert ask("label-noise", on_classes(*wide)).outcome is not Outcome.WARN


def test_a_class_that_is_hard_and_drawn_more_often_in_training() -> None:
    """One class of two lies amid the other: half of the training samples are of it, and a twentieth of the others."""

    def drawn(count: int, share: float, seed: int) -> TensorDataset:
        generator = torch.Generator().manual_seed(seed)
        y = (torch.rand(count, generator=generator) < share).long()
        x = torch.randn(count, 10, generator=generator)
        x[:, 0] += 1.5 * y
        return TensorDataset(x, y)

    assert ask("label-noise", on_classes(drawn(1200, 0.5, 1), drawn(600, 0.05, 2))).outcome is not Outcome.WARN


def test_validation_samples_in_another_scale() -> None:
    x, y = classed(600, 2).tensors
    assert ask("label-noise", on_classes(classed(1200, 1), TensorDataset(x / 4 - 1, y))).outcome is not Outcome.WARN
