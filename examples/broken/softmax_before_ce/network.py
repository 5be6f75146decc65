"""A small convolutional network for images of 8 x 8 pixels."""

import torch
from torch import nn


class DigitNet(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * channels, 10), nn.Softmax(dim=1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images))
