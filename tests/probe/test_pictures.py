"""What the gallery shows beside the batch: samples before and after augmentation, boxes, signals, true colours."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from probe_programs import ask, cross_entropy, trial_on
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from mlcheck.probe.measure.data.augmented import augmentation
from mlcheck.probe.measure.data.boxes import boxed
from mlcheck.probe.measure.data.normalised import Normalisation, normalisation
from mlcheck.probe.measure.data.waveforms import is_waveform, waveforms


class Normalize:
    def __init__(self, mean: Any, std: Any) -> None:
        self.mean, self.std = mean, std

    def __call__(self, picture: Tensor) -> Tensor:
        return (picture - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]


class Compose:
    def __init__(self, *transforms: Callable[[Tensor], Tensor]) -> None:
        self.transforms = list(transforms)

    def __call__(self, picture: Tensor) -> Tensor:
        for transform in self.transforms:
            picture = transform(picture)
        return picture


def flipped(picture: Tensor) -> Tensor:
    return picture.flip(-1) if torch.rand(()) < 0.5 else picture


class Pictures(Dataset[tuple[Tensor, int]]):
    """Red at the left, green at the right."""

    def __init__(self, transform: Callable[[Tensor], Tensor] | None) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = torch.zeros(3, 8, 8)
        picture[0, :, :4], picture[1, :, 4:] = 0.9, 0.6
        picture[2] = index / 64
        return self.transform(picture) if self.transform else picture, index % 5


STATISTICS = ([0.5, 0.4, 0.3], [0.2, 0.25, 0.3])


def loader(*transforms: Callable[[Tensor], Tensor]) -> DataLoader[Any]:
    return DataLoader(Pictures(Compose(*transforms)), batch_size=32, shuffle=True)


def pixels(tile: dict[str, str]) -> np.ndarray[Any, Any]:
    return np.array(Image.open(io.BytesIO(base64.b64decode(tile["png"]))).convert("RGB")).astype(int)


def test_a_normalised_picture_has_its_colours_again() -> None:
    data = Pictures(Compose(Normalize(*STATISTICS)))
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    figure = ask("batch-not-reviewed", trial_on(data, model=model, loss=cross_entropy)).figures[0]
    assert "without the transform's mean 0.5, 0.4, 0.3 and deviation 0.2, 0.25, 0.3" in figure.title
    seen = pixels(figure.data["tiles"][0])
    assert abs(seen[0, 0, 0] - 230) <= 2
    assert abs(seen[-1, -1, 1] - 153) <= 2


@pytest.mark.parametrize(
    "statistics", [([5.0, 5.0, 5.0], [1.0, 1.0, 1.0]), ([0.5, 0.5], [0.2, 0.2])], ids=["other numbers", "two channels"]
)
def test_numbers_that_are_not_the_picture_s_are_left_alone(statistics: tuple[list[float], list[float]]) -> None:
    undo = Normalisation(tuple(statistics[0]), tuple(statistics[1]))
    assert undo.undone(torch.rand(2, 3, 4, 4) * 4 - 2) is None


def test_the_normalisation_is_found_behind_a_subset_and_in_a_wrapper() -> None:
    deep = DataLoader(Subset(Pictures(Compose(flipped, Compose(Normalize(*STATISTICS)))), range(8)))
    assert normalisation(deep) == Normalisation(tuple(STATISTICS[0]), tuple(STATISTICS[1]))
    assert normalisation(loader(flipped)) is None
    assert normalisation(loader(Normalize(*STATISTICS), Normalize([0.0], [2.0]))) is None
    assert normalisation([1, 2]) is None


def test_augmented_samples_are_shown_before_and_after() -> None:
    figure = augmentation(loader(flipped, Normalize(*STATISTICS)), normalisation(loader(Normalize(*STATISTICS))))
    assert figure is not None
    tiles = figure.data["tiles"]
    assert len(tiles) == 4 * 5
    first = tiles[:5]
    assert [tile["caption"].split(", ")[1] for tile in first] == [
        "without transform",
        *(f"reading {n}" for n in range(1, 5)),
    ]
    assert pixels(first[0])[0, 0, 0] > 200
    assert {pixels(tile)[0, 0, 0] > 200 for tile in tiles} == {True, False}


def test_what_is_read_alike_every_time_is_not_shown_twice() -> None:
    assert augmentation(loader(Normalize(*STATISTICS)), None) is None
    assert augmentation(DataLoader([(torch.rand(8), 1)] * 8), None) is None  # type: ignore[arg-type]
    assert augmentation([1, 2], None) is None


def test_a_data_set_that_does_not_work_without_its_transform_is_read_with_it() -> None:
    class Needing(Pictures):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            assert self.transform is not None
            return super().__getitem__(index)

    figure = augmentation(DataLoader(Needing(flipped)), None)
    assert figure is not None
    assert all("reading" in tile["caption"] for tile in figure.data["tiles"])


def detection(boxes: list[list[float]]) -> Any:
    """As torchvision's models take it: a list of pictures, a list of dicts."""
    target = {"boxes": torch.tensor(boxes), "labels": torch.tensor([3] * len(boxes))}
    return [torch.zeros(3, 40, 60), torch.zeros(3, 40, 60)], [
        target,
        {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0)},
    ]


def test_boxes_are_drawn_where_they_are() -> None:
    figure = boxed(detection([[6.0, 10.0, 30.0, 30.0]]), None)
    assert figure is not None
    assert [tile["caption"] for tile in figure.data["tiles"]] == ["3", "0 boxes"]
    seen = pixels(figure.data["tiles"][0])
    height, width, _ = seen.shape
    assert seen[height // 4 : height * 3 // 4, round(0.1 * (width - 1)), 0].min() > 200
    assert seen[height // 2, width // 4, 0] == 0
    assert pixels(figure.data["tiles"][1]).max() == 0


def test_boxes_of_a_padded_batch_in_shares_of_the_picture() -> None:
    boxes = torch.tensor([[[0.1, 0.1, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]], [[0.2, 0.2, 0.9, 0.9], [0.5, 0.5, 0.6, 0.6]]])
    figure = boxed({"image": torch.zeros(2, 3, 40, 60), "bboxes": boxes}, None)
    assert figure is not None
    assert [tile["caption"] for tile in figure.data["tiles"]] == ["1 box", "2 boxes"]


@pytest.mark.parametrize(
    "batch",
    [
        detection([[30.0, 20.0, 10.0, 8.0]]),
        detection([[6.0, 10.0, 300.0, 30.0]]),
        (torch.zeros(2, 3, 40, 60), torch.tensor([1, 2])),
        {"boxes": torch.rand(2, 4)},
    ],
    ids=["centres and sizes", "out of the picture", "no boxes", "no pictures"],
)
def test_what_are_no_corners_in_a_picture_is_not_drawn(batch: Any) -> None:
    assert boxed(batch, None) is None


def test_a_signal_is_drawn_whole() -> None:
    time = torch.arange(16_000) / 16_000
    waves = torch.stack([torch.sin(2 * torch.pi * 3 * time), torch.cos(2 * torch.pi * 5 * time)])
    assert is_waveform(waves)
    assert is_waveform(waves[:, None])
    figure = waveforms("input", waves[:, None], ["cat", "dog"])
    series = figure.data["series"]
    assert [one["name"] for one in series] == ["cat", "dog"]
    assert series[0]["x"][-1] > 15_000
    assert len(series[0]["y"]) < 400
    assert max(series[0]["y"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    "tensor",
    [torch.randn(8, 400), torch.randint(5, (8, 400)), torch.rand(8, 30), torch.rand(8, 12, 400), torch.zeros(8, 400)],
    ids=["a wide table", "ids", "a table", "many channels", "nothing"],
)
def test_what_is_no_signal_is_not_drawn_as_one(tensor: Tensor) -> None:
    assert not is_waveform(tensor)
