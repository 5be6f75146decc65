"""Probes of the labels: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_programs import ask, trial_on
from test_data_probes import Changed, says
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from mlcheck.core.outcome import Outcome


def clusters(rows: int = 400, seed: int = 1, spread: float = 1.0) -> TensorDataset:
    """Five classes, each around its own corner; the class means are the same for every seed."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 5
    corners = 4 * torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(corners[labels] + spread * torch.randn(rows, 8, generator=generator), labels)


def relabelled(data: TensorDataset, share: float) -> TensorDataset:
    x, y = data.tensors
    changed = y.clone()
    some = torch.randperm(len(y), generator=torch.Generator().manual_seed(3))[: int(share * len(y))]
    changed[some] = (y[some] + 1) % 5
    return TensorDataset(x, changed)


def test_a_fifth_of_the_labels_wrong() -> None:
    verdict = ask("label-noise", trial_on(relabelled(clusters(), 0.2), clusters(seed=2)))
    says(verdict, Outcome.WARN, "of labels", "in validation 0.0 % do (at most ")
    assert verdict.numbers["low"] < 0.2 < verdict.numbers["high"]
    assert verdict.figures[0].kind == "table"


@pytest.mark.parametrize("share", [0.0, 0.03])
def test_few_wrong_labels_pass(share: float) -> None:
    says(ask("label-noise", trial_on(relabelled(clusters(), share), clusters(seed=2))), Outcome.PASS)


def test_classes_that_overlap_are_no_noise() -> None:
    overlapping = trial_on(clusters(spread=12.0), clusters(seed=2, spread=12.0))
    assert ask("label-noise", overlapping).outcome in (Outcome.PASS, Outcome.INCONCLUSIVE)


def test_noise_is_told_from_overlap_by_held_out_samples() -> None:
    few = clusters(rows=20, seed=2)
    for held_out in (few, relabelled(clusters(seed=2), 0.2)):
        verdict = ask("label-noise", trial_on(relabelled(clusters(), 0.2), held_out))
        assert verdict.outcome is not Outcome.WARN, verdict.summary


def erased(share: float) -> Any:
    def change(_: int, sample: tuple[Tensor, Tensor]) -> Any:
        noise = torch.randn(8)
        return (noise if torch.rand(()) < share else sample[0] + 0.2 * noise), sample[1]

    return Changed(clusters(), change)


def test_augmentation_that_replaces_most_samples() -> None:
    shuffled = Changed(clusters(), lambda _, sample: (10 * torch.randn(8), sample[1]))
    verdict = ask("augmentation-destroys-label", trial_on(shuffled, clusters(seed=2)))
    says(verdict, Outcome.WARN, "augmentation hides what the label says")


def test_mild_augmentation_passes() -> None:
    says(ask("augmentation-destroys-label", trial_on(erased(0.1), clusters(seed=2))), Outcome.PASS)
    plain = ask("augmentation-destroys-label", trial_on(clusters(), clusters(seed=2)))
    assert plain.outcome is Outcome.SKIP


def sequences() -> Any:
    """Token sequences of different lengths."""
    generator = torch.Generator().manual_seed(5)
    return Changed(
        clusters(120),
        lambda i, sample: (torch.randint(1, 30, (3 + i % 7,), generator=generator.manual_seed(i)), sample[1]),
    )


def padded(rows: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def sorts_inputs_only(batch: list[Any]) -> Any:
    return padded(sorted((x for x, _ in batch), key=len)), torch.stack([y for _, y in batch])


def sorts_samples(batch: list[Any]) -> Any:
    batch = sorted(batch, key=lambda sample: len(sample[0]))
    return padded([x for x, _ in batch]), torch.stack([y for _, y in batch])


def mixes(batch: list[Any]) -> Any:
    x, y = default_collate(batch)
    return 0.7 * x + 0.3 * x.roll(1, 0), y


def test_inputs_sorted_without_their_labels() -> None:
    verdict = ask("collate-mixes-samples", trial_on(sequences(), collate_fn=sorts_inputs_only))
    says(verdict, Outcome.FAIL, "the labels of other samples", "of 32 pairs are wrong")
    assert verdict.findings[0].location.symbol == "sorts_inputs_only"


def test_samples_sorted_as_a_whole_pass() -> None:
    says(ask("collate-mixes-samples", trial_on(sequences(), collate_fn=sorts_samples)), Outcome.PASS, "all 32 inputs")


def test_mixed_samples_are_left_open() -> None:
    assert ask("collate-mixes-samples", trial_on(clusters(), collate_fn=mixes)).outcome is Outcome.INCONCLUSIVE
    assert ask("collate-mixes-samples", trial_on(clusters())).outcome is Outcome.SKIP
