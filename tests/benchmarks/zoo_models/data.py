"""The data of the zoo: small sets that ship in scikit-learn, or are made here by a fixed rule that can be learnt.

Every function gives the training set and the validation set; inputs are scaled by the training set's statistics.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

Split = tuple[TensorDataset, TensorDataset]
TABLES = {"breast_cancer": load_breast_cancer, "diabetes": load_diabetes, "iris": load_iris, "wine": load_wine}


def loaders(sets: tuple[Dataset, Dataset], batch: int = 32) -> dict[str, DataLoader]:
    training, validation = sets
    return {
        "train_loader": DataLoader(training, batch_size=batch, shuffle=True),
        "validation_loader": DataLoader(validation, batch_size=2 * batch),
    }


def split(*columns: Tensor, validation: float = 0.2) -> Split:
    """Samples in a random order that is the same in every run, the last part of them for validation."""
    count = len(columns[0])
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    cut = int(count * (1 - validation))
    return (
        TensorDataset(*(column[order[:cut]] for column in columns)),
        TensorDataset(*(column[order[cut:]] for column in columns)),
    )


def digits(labels: bool = True) -> Split:
    """1,797 images (1, 8, 8) of about zero mean and unit deviation, and their classes."""
    images, targets = load_digits(return_X_y=True)
    scaled = torch.from_numpy((images - 4.9) / 6.0).float().view(-1, 1, 8, 8)
    return split(scaled, torch.from_numpy(targets)) if labels else split(scaled)


def table(name: str, classes: bool = True) -> Split:
    features, targets = TABLES[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(features))
    features, targets = features[order], targets[order]
    cut = int(len(features) * 0.8)
    scaled = torch.from_numpy((features - features[:cut].mean(0)) / features[:cut].std(0)).float()
    if classes:
        wanted = torch.from_numpy(targets).long()
    else:
        wanted = torch.from_numpy((targets - targets[:cut].mean()) / targets[:cut].std()).float()[:, None]
    return TensorDataset(scaled[:cut], wanted[:cut]), TensorDataset(scaled[cut:], wanted[cut:])


def waves(count: int = 1200, length: int = 64, channels: int = 1) -> Split:
    """Noisy sines (count, channels, length) whose frequency, one of four, is the class."""
    noise = np.random.default_rng(1)
    labels = noise.integers(0, 4, count)
    time = np.arange(length) / length
    phase = noise.uniform(0, 2 * np.pi, (count, channels, 1))
    clean = np.sin(2 * np.pi * (2 + 2 * labels)[:, None, None] * time + phase)
    return split(torch.from_numpy(clean + 0.3 * noise.normal(size=clean.shape)).float(), torch.from_numpy(labels))


def series(count: int = 1500, past: int = 24) -> Split:
    """Windows (past, 1) of a noisy seasonal series and the value that follows (1,): the last fifth is later in time."""
    noise = np.random.default_rng(2)
    time = np.arange(count + past)
    values = np.sin(time / 4) + 0.5 * np.sin(time / 11) + 0.1 * noise.normal(size=len(time))
    values = (values - values[:count].mean()) / values[:count].std()
    windows = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(values, past + 1).copy()).float()[..., None]
    cut = int(len(windows) * 0.8)
    return (
        TensorDataset(windows[:cut, :-1], windows[:cut, -1]),
        TensorDataset(windows[cut + past :, :-1], windows[cut + past :, -1]),
    )


def text(length: int = 32) -> tuple[TensorDataset, TensorDataset, int]:
    """Windows of characters of a manual and the same one character later, and the size of the alphabet."""
    written = "".join(load().DESCR for load in TABLES.values())
    alphabet = sorted(set(written))
    ids = torch.tensor([alphabet.index(character) for character in written])
    windows = ids[: len(ids) // (length + 1) * (length + 1)].view(-1, length + 1)
    cut = int(len(windows) * 0.85)
    return (
        TensorDataset(windows[:cut, :-1], windows[:cut, 1:]),
        TensorDataset(windows[cut:, :-1], windows[cut:, 1:]),
        len(alphabet),
    )


def sentences(count: int = 1500, words: int = 50, longest: int = 20) -> list[tuple[Tensor, int]]:
    """Token lists of several lengths (0 is kept for padding), and whether most tokens are above the middle."""
    noise = np.random.default_rng(3)
    made = []
    for _ in range(count):
        tokens = noise.integers(1, words, noise.integers(5, longest + 1))
        made.append((torch.from_numpy(tokens), int((tokens > words // 2).sum() * 2 > len(tokens))))
    return made


def padded(batch: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    tokens = torch.nn.utils.rnn.pad_sequence([sample for sample, _ in batch], batch_first=True)
    return tokens, torch.tensor([label for _, label in batch])


def sentence_loaders(batch: int = 32) -> dict[str, DataLoader]:
    made = sentences()
    return {
        "train_loader": DataLoader(made[:1200], batch_size=batch, shuffle=True, collate_fn=padded),  # type: ignore[arg-type]
        "validation_loader": DataLoader(made[1200:], batch_size=batch, collate_fn=padded),  # type: ignore[arg-type]
    }


def shapes(count: int = 600, size: int = 24) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (n, 1, size, size) of a disc or square, its mask, its box (centre, width, height), its kind."""
    noise = np.random.default_rng(4)
    kinds = noise.integers(0, 2, count)
    radius = noise.integers(3, 7, count)
    centre = noise.integers(7, size - 7, (count, 2))
    y, x = np.mgrid[:size, :size]
    across = np.abs(x - centre[:, 0, None, None])
    down = np.abs(y - centre[:, 1, None, None])
    disc = across**2 + down**2 <= radius[:, None, None] ** 2
    square = np.maximum(across, down) <= radius[:, None, None]
    masks = np.where(kinds[:, None, None] == 0, disc, square)
    images = masks * 2.0 - 0.5 + 0.3 * noise.normal(size=masks.shape)
    boxes = np.concatenate([centre, 2 * radius[:, None] + 1, 2 * radius[:, None] + 1], axis=1) / size
    return (
        torch.from_numpy(images).float()[:, None],
        torch.from_numpy(masks).float()[:, None],
        torch.from_numpy(boxes).float(),
        torch.from_numpy(kinds),
    )


def rings(count: int = 2000) -> Tensor:
    """Points (count, 2) on eight blobs around a circle."""
    noise = np.random.default_rng(5)
    angle = noise.integers(0, 8, count) * np.pi / 4
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * 1.4 + 0.1 * noise.normal(size=(count, 2))
    return torch.from_numpy(points).float()


def communities(nodes: int = 200, groups: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """A graph with dense groups: features (nodes, 16) that hint at the group, normalised adjacency, group."""
    noise = np.random.default_rng(6)
    group = np.arange(nodes) % groups
    likely = np.where(group[:, None] == group[None, :], 0.15, 0.01)
    edges = np.triu(noise.random((nodes, nodes)) < likely, 1)
    adjacency = (edges | edges.T) + np.eye(nodes)
    degree = adjacency.sum(1)
    centres = noise.normal(size=(groups, 16))
    features = centres[group] + 1.5 * noise.normal(size=(nodes, 16))
    return (
        torch.from_numpy(features).float(),
        torch.from_numpy(adjacency / np.sqrt(degree[:, None] * degree[None, :])).float(),
        torch.from_numpy(group),
    )
