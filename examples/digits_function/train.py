"""Handwritten digits, as one function that returns the parts of a training program."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build() -> dict[str, Any]:
    train, validation = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.GroupNorm(4, 32),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(train, batch_size=32, shuffle=True),
        "validation_loader": DataLoader(validation, batch_size=128),
    }


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Training and validation images, both scaled by the mean and deviation of the training set."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(data.target)
    train, validation = train_test_split(range(len(labels)), test_size=0.2, stratify=labels, random_state=0)
    mean, std = images[train].mean(), images[train].std()
    images = (images - mean) / std
    return TensorDataset(images[train], labels[train]), TensorDataset(images[validation], labels[validation])
