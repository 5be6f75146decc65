"""Sound classifiers of small images, in the building blocks that people use."""

from __future__ import annotations

from typing import Any

import torch
from data import digits, loaders
from torch import Tensor, nn
from torch.nn import functional as F


def classifier(model: nn.Module, rate: float = 2e-3, **more: Any) -> dict[str, Any]:
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=rate),
        "loss": nn.CrossEntropyLoss(),
        **loaders(digits()),
        **more,
    }


def mlp() -> dict[str, Any]:
    return classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))


def lenet() -> dict[str, Any]:
    return classifier(
        nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10),
        )
    )  # fmt: skip


def batch_norm_cnn() -> dict[str, Any]:
    return classifier(
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )
    )  # fmt: skip


def group_norm_cnn() -> dict[str, Any]:
    return classifier(
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.GroupNorm(4, 32), nn.SiLU(),
            nn.Flatten(), nn.Linear(32 * 16, 10),
        )
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        nn.init.zeros_(self.norm2.weight)  # each block begins as the identity (Goyal et al. 2017)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


def resnet() -> dict[str, Any]:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), Residual(16), Residual(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    return classifier(model, optimizer=optimizer)


def depthwise_cnn() -> dict[str, Any]:
    def block(channels: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False), nn.BatchNorm2d(channels),
            nn.ReLU6(), nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU6(),
        )  # fmt: skip

    stem = nn.Conv2d(1, 16, 3, padding=1)
    return classifier(
        nn.Sequential(stem, block(16, 32), block(32, 48), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))
    )


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.reduce = nn.Linear(channels, channels // 4)
        self.expand = nn.Linear(channels // 4, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv(x))
        gate = torch.sigmoid(self.expand(F.relu(self.reduce(y.mean((2, 3))))))
        return x + y * gate[:, :, None, None]


def squeeze_excite() -> dict[str, Any]:
    return classifier(
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), SqueezeExcite(16), SqueezeExcite(16), nn.Flatten(), nn.Linear(1024, 10)
        )
    )


class DenseBlock(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)


def densenet() -> dict[str, Any]:
    return classifier(
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), DenseBlock(16, 8), DenseBlock(24, 8), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
        )
    )  # fmt: skip


class VisionTransformer(nn.Module):
    """Patches of 2 x 2, a class token, learnt positions."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, 2)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.position
        return self.head(self.encoder(tokens)[:, 0])


def vision_transformer() -> dict[str, Any]:
    model = VisionTransformer()
    return classifier(model, optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01))


class Mixer(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.within = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm2(x))


def mlp_mixer() -> dict[str, Any]:
    patches = nn.Sequential(nn.Unfold(2, stride=2), Transpose(), nn.Linear(4, 32))
    return classifier(nn.Sequential(patches, Mixer(16, 32), Mixer(16, 32), Mean(), nn.Linear(32, 10)))


class Transpose(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class ConvNextBlock(nn.Module):
    """Its layer scale starts at 0.1 (Liu et al. 2022 start lower, for deeper nets)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.expand, self.reduce = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.reduce(F.gelu(self.expand(y)))).permute(0, 3, 1, 2)


def convnext() -> dict[str, Any]:
    stem = nn.Conv2d(1, 24, 2, 2)
    return classifier(
        nn.Sequential(
            stem, ConvNextBlock(24), ConvNextBlock(24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)
        )
    )


def capsules_of_maxout() -> dict[str, Any]:
    class Maxout(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pieces = nn.Linear(64, 3 * 48)
            self.head = nn.Linear(48, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.pieces(x.flatten(1)).view(len(x), 48, 3).amax(2))

    return classifier(Maxout())


def spectral_norm() -> dict[str, Any]:
    normed = torch.nn.utils.parametrizations.spectral_norm
    return classifier(
        nn.Sequential(nn.Flatten(), normed(nn.Linear(64, 64)), nn.LeakyReLU(0.1), nn.Linear(64, 10)), rate=4e-3
    )


def weight_norm() -> dict[str, Any]:
    normed = torch.nn.utils.parametrizations.weight_norm
    return classifier(
        nn.Sequential(normed(nn.Conv2d(1, 16, 3, padding=1)), nn.ELU(), nn.Flatten(), normed(nn.Linear(1024, 10)))
    )


def strong_dropout() -> dict[str, Any]:
    return classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10)))


def log_probabilities() -> dict[str, Any]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(dim=1))
    return classifier(model, loss=nn.NLLLoss())


def label_smoothing() -> dict[str, Any]:
    parts = lenet()
    return parts | {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)}


def focal_loss() -> dict[str, Any]:
    def focal(output: Tensor, target: Tensor) -> Tensor:
        cross = F.cross_entropy(output, target, reduction="none")
        return ((1 - torch.exp(-cross)) ** 2 * cross).mean()

    return lenet() | {"loss": focal}


def one_against_all() -> dict[str, Any]:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(output, F.one_hot(target, 10).float())

    return mlp() | {"loss": loss}


def pooled_attention() -> dict[str, Any]:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1))
            self.query = nn.Parameter(torch.randn(1, 1, 32) / 32**0.5)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.features(x).flatten(2).transpose(1, 2)
            seen, _ = self.attention(self.query.expand(len(x), -1, -1), tokens, tokens, need_weights=False)
            return self.head(seen[:, 0])

    return classifier(Attention(), rate=4e-3)
