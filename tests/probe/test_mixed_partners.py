"""Samples that are mixed with others in the step, and labels that are mixed with the same ones or with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.mixed_partners import MixedPartners
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.trial.trial import Trial

RULE = "augmentation-destroys-label"
Target = Callable[[Tensor, Tensor, Tensor], Tensor]


def mixing(loss: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], part: Any = 0.3) -> Trial:
    """`loss` gets scores, labels, the partners of the inputs and their part."""

    def step(model: nn.Module, batch: Any) -> Tensor:
        inputs, labels = batch
        partners, parts = torch.randperm(len(inputs)), torch.as_tensor(part).expand(len(inputs))
        mixed = (1 - parts[:, None]) * inputs + parts[:, None] * inputs[partners]
        return loss(model(mixed), labels, partners, parts)

    return trial_of(mlp(), classes(8), step)


def shares(labels: Tensor, partners: Tensor, parts: Tensor) -> Tensor:
    one_hot = F.one_hot(labels, 5).float()
    return (1 - parts[:, None]) * one_hot + parts[:, None] * one_hot[partners]


def with_others(scores: Tensor, labels: Tensor, _: Tensor, parts: Tensor) -> Tensor:
    return F.cross_entropy(scores, shares(labels, torch.randperm(len(labels)), parts))


def two_losses_with_others(scores: Tensor, labels: Tensor, _: Tensor, parts: Tensor) -> Tensor:
    theirs = labels[torch.randperm(len(labels))]
    part = parts.mean()
    return (1 - part) * F.cross_entropy(scores, labels) + part * F.cross_entropy(scores, theirs)


def in_exchanged_parts(scores: Tensor, labels: Tensor, partners: Tensor, parts: Tensor) -> Tensor:
    return F.cross_entropy(scores, shares(labels, partners, 1 - parts))


@pytest.mark.parametrize("loss", [with_others, two_losses_with_others])
def test_labels_mixed_with_those_of_others(loss: Any) -> None:
    says(ask(RULE, mixing(loss)), Outcome.FAIL, "other partners than their labels", "label of a third one")


def test_labels_mixed_in_exchanged_parts() -> None:
    says(ask(RULE, mixing(in_exchanged_parts)), Outcome.FAIL, "exchanged parts")


def with_the_same(scores: Tensor, labels: Tensor, partners: Tensor, parts: Tensor) -> Tensor:
    return F.cross_entropy(scores, shares(labels, partners, parts))


def two_losses(scores: Tensor, labels: Tensor, partners: Tensor, parts: Tensor) -> Tensor:
    part = parts.mean()
    return (1 - part) * F.cross_entropy(scores, labels) + part * F.cross_entropy(scores, labels[partners])


@pytest.mark.parametrize("loss", [with_the_same, two_losses])
@pytest.mark.parametrize("part", [0.3, 0.5, 0.8])
def test_labels_mixed_with_the_same_ones(loss: Any, part: float) -> None:
    seen = MixedPartners.measure(mixing(loss, part), 60.0)
    assert seen.rows > 8
    assert seen.others == seen.exchanged == 0


def own_label(scores: Tensor, labels: Tensor, *_: Tensor) -> Tensor:
    return F.cross_entropy(scores, labels)


def smoothed(scores: Tensor, labels: Tensor, partners: Tensor, parts: Tensor) -> Tensor:
    return F.cross_entropy(scores, 0.9 * shares(labels, partners, parts) + 0.02)


@pytest.mark.parametrize("loss", [own_label, smoothed])
def test_what_is_not_known_to_be_mixed_labels(loss: Any) -> None:
    with pytest.raises(NotMeasured):
        MixedPartners.measure(mixing(loss), 60.0)


def test_a_part_for_each_sample() -> None:
    parts = torch.linspace(0.1, 0.45, 32)
    assert not MixedPartners.measure(mixing(with_the_same, parts), 60.0).others
    assert MixedPartners.measure(mixing(with_others, parts), 60.0).others > 8
