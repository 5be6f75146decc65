"""Augmentation that leaves behind what belongs to a picture or hides its label, and augmentation that does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed
from label_programs import clusters
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def erased(share: float) -> Any:
    def change(_: int, sample: tuple[Tensor, Tensor]) -> Any:
        noise = torch.randn(8)
        return (noise if torch.rand(()) < share else sample[0] + 0.2 * noise), sample[1]

    return Changed(clusters(), change)


def test_augmentation_that_replaces_most_samples() -> None:
    shuffled = Changed(clusters(), lambda _, sample: (10 * torch.randn(8), sample[1]))
    verdict = ask("augmentation-destroys-label", trial_on(shuffled, clusters(seed=2)))
    says(verdict, Outcome.WARN, "augmentation hides what the label says")


def in_the_step(change: Any, evaluates_too: bool = False) -> Trial:
    """A trial whose training step changes its inputs before the model gets them."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        return F.cross_entropy(model(change(x) if model.training or evaluates_too else x), y)

    return trial_on(clusters(), clusters(seed=2), loss=loss)


def test_a_training_step_that_replaces_most_samples() -> None:
    verdict = ask("augmentation-destroys-label", in_the_step(lambda x: 5 * torch.randn_like(x)))
    says(verdict, Outcome.WARN, "augmentation hides what the label says", "is changed in the training step")


@pytest.mark.parametrize("evaluates_too", [False, True])
def test_a_training_step_that_adds_some_noise(evaluates_too: bool) -> None:
    trial = in_the_step(lambda x: x + 0.5 * torch.randn_like(x), evaluates_too)
    assert ask("augmentation-destroys-label", trial).outcome is (Outcome.SKIP if evaluates_too else Outcome.PASS)


def scenes(change: Any, rows: int = 40) -> Changed:
    """Pictures of a bright block on noise, its mask and its box, changed as they are read."""
    generator = torch.Generator().manual_seed(1)
    pictures, masks = torch.rand(rows, 1, 16, 16, generator=generator), torch.zeros(rows, 16, 16, dtype=torch.long)
    corners = torch.randint(0, 10, (rows, 2), generator=generator)
    for picture, mask, (y, x) in zip(pictures, masks, corners.tolist()):
        picture[:, y : y + 5, x : x + 4] += 2.0
        mask[y : y + 5, x : x + 4] = 1
    boxes = torch.cat([corners, corners + 4], dim=1).float() / 16
    return Changed(TensorDataset(pictures, masks, boxes), change)


def trial_on_scenes(training: Dataset[Any], validation: Dataset[Any]) -> Trial:
    """A trial whose model takes the pictures, whatever comes beside them."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return model(batch["image"] if isinstance(batch, dict) else batch[0]).square().mean()

    return trial_on(training, validation, nn.Conv2d(1, 1, 3, padding=1), loss)


def flipped(*moved: str, axis: int = -1, noise: float = 0.0) -> Any:
    def change(_: int, sample: Any) -> dict[str, Tensor]:
        parts = dict(zip(("image", "mask", "box"), sample))
        if torch.rand(()) < 0.5:
            parts |= {name: parts[name].flip(axis) for name in moved}
        parts["image"] = parts["image"] + noise * torch.randn(1, 16, 16)
        return {name: part for name, part in parts.items() if name != "box" or "mask" not in moved}

    return change


@pytest.mark.parametrize(("axis", "how"), [(-1, "flipped left to right"), (-2, "flipped upside down")])
def test_a_flip_that_leaves_the_mask_behind(axis: int, how: str) -> None:
    trial = trial_on_scenes(scenes(flipped("image", axis=axis, noise=0.05)), scenes(flipped()))
    said = f"`image` is {how} and `mask` is unchanged"
    says(ask("augmentation-destroys-label", trial), Outcome.FAIL, "augmentation transforms the picture", said)


def test_a_flip_that_leaves_the_boxes_behind() -> None:
    def boxes_alone(index: int, sample: Any) -> Any:
        return {name: part for name, part in flipped("image")(index, sample).items() if name != "mask"}

    says(
        ask("augmentation-destroys-label", trial_on_scenes(scenes(boxes_alone), scenes(flipped()))),
        Outcome.FAIL,
        "`box`",
    )


@pytest.mark.parametrize("change", [flipped("image", "mask"), flipped(noise=0.05), flipped("image", "mask", noise=0.1)])
def test_what_moves_together_or_not_at_all_is_no_fault(change: Any) -> None:
    assert (
        ask("augmentation-destroys-label", trial_on_scenes(scenes(change), scenes(flipped()))).outcome is Outcome.SKIP
    )


def test_two_views_that_are_flipped_apart_are_no_picture_and_mask() -> None:
    def views(_: int, sample: Any) -> Any:
        return tuple(sample[0].flip(-1) if torch.rand(()) < 0.5 else sample[0] for _ in range(2))

    assert ask("augmentation-destroys-label", trial_on_scenes(scenes(views), scenes(views))).outcome is Outcome.SKIP


def noisy(deviation: float, of: Any) -> Any:
    return Changed(of, lambda _, sample: (sample[0] + deviation * torch.randn(8), sample[1]))


def test_noise_that_drowns_the_sample() -> None:
    drowned = ask("augmentation-destroys-label", trial_on(noisy(60.0, clusters()), clusters(seed=2)))
    says(drowned, Outcome.WARN, "augmentation drowns the sample", "times what validation samples differ by")
    for trial in (
        trial_on(noisy(60.0, clusters()), noisy(60.0, clusters(seed=2))),
        trial_on(noisy(2.0, clusters()), clusters(seed=2)),
    ):
        assert "drowns" not in ask("augmentation-destroys-label", trial).summary


def test_mild_augmentation_passes() -> None:
    says(ask("augmentation-destroys-label", trial_on(erased(0.1), clusters(seed=2))), Outcome.PASS)
    plain = ask("augmentation-destroys-label", trial_on(clusters(), clusters(seed=2)))
    assert plain.outcome is Outcome.SKIP
