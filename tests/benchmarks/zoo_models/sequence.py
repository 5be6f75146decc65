"""Sound models of sequences: recurrent, convolutional, attention; classes, tags, next tokens, forecasts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from data import loaders, sentence_loaders, series, split, text, waves
from torch import Tensor, nn
from torch.nn import functional as F


def parts(model: nn.Module, loss: Any, fed: dict[str, Any], rate: float = 3e-3) -> dict[str, Any]:
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=rate), "loss": loss, **fed}


def wave_cnn() -> dict[str, Any]:
    model = nn.Sequential(
        nn.Conv1d(1, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip
    return parts(model, nn.CrossEntropyLoss(), loaders(waves()))


class CausalConv(nn.Module):
    def __init__(self, channels: int, out: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.conv = nn.Conv1d(channels, out, 3, dilation=dilation)
        self.match = nn.Conv1d(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.match(x) + F.gelu(self.conv(F.pad(x, (self.past, 0)))))


class Last(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., -1]


def causal_convolutions() -> dict[str, Any]:
    layers = [CausalConv(1, 16, 1), CausalConv(16, 16, 2), CausalConv(16, 16, 4), CausalConv(16, 16, 8)]
    return parts(nn.Sequential(*layers, Last(), nn.Linear(16, 4)), nn.CrossEntropyLoss(), loaders(waves(length=32)))


class Recurrent(nn.Module):
    def __init__(self, cell: type[nn.RNNBase], outputs: int, width: int = 32) -> None:
        super().__init__()
        self.cell = cell(1, width, batch_first=True)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cell(x)
        return self.head(states[:, -1])


def forecast_lstm() -> dict[str, Any]:
    return parts(Recurrent(nn.LSTM, 1), nn.MSELoss(), loaders(series()))


def forecast_gru() -> dict[str, Any]:
    return parts(Recurrent(nn.GRU, 1), nn.L1Loss(), loaders(series()))


def forecast_linear() -> dict[str, Any]:
    return parts(nn.Sequential(nn.Flatten(), nn.Linear(24, 1)), nn.MSELoss(), loaders(series()))


class PackedGRU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 24, padding_idx=0)
        self.gru = nn.GRU(24, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = (tokens != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, last = self.gru(packed)
        return self.head(torch.cat([last[0], last[1]], 1))


def packed_gru() -> dict[str, Any]:
    return parts(PackedGRU(), nn.CrossEntropyLoss(), sentence_loaders(), rate=5e-3)


class MeanOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        there = (tokens != 0).float()[..., None]
        return self.head((self.embedding(tokens) * there).sum(1) / there.sum(1))


def mean_of_words() -> dict[str, Any]:
    return parts(MeanOfWords(), nn.CrossEntropyLoss(), sentence_loaders(), rate=1e-2)


class Positions(nn.Module):
    """Sines and cosines (Vaswani et al. 2017)."""

    table: Tensor

    def __init__(self, width: int, longest: int = 64) -> None:
        super().__init__()
        angle = torch.arange(longest)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], 2).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


class MaskedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32, padding_idx=0)
        self.positions = Positions(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        padding = tokens == 0
        seen = self.encoder(self.positions(self.embedding(tokens)), src_key_padding_mask=padding)
        there = (~padding).float()[..., None]
        return self.head((seen * there).sum(1) / there.sum(1))


def masked_encoder() -> dict[str, Any]:
    return parts(MaskedEncoder(), nn.CrossEntropyLoss(), sentence_loaders(), rate=2e-3)


def tokens_last(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


class CharacterLSTM(nn.Module):
    """The embedding is the output layer as well (Press and Wolf 2017)."""

    def __init__(self, alphabet: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(alphabet, width)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, alphabet)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


def character_lstm() -> dict[str, Any]:
    training, validation, alphabet = text()
    return parts(CharacterLSTM(alphabet), tokens_last, loaders((training, validation)), rate=5e-3)


class SmallGPT(nn.Module):
    def __init__(self, alphabet: int, width: int = 48, length: int = 32) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(alphabet, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, alphabet)
        self.apply(self._init)

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.tokens(tokens) + self.positions(torch.arange(length, device=tokens.device))
        return self.head(self.norm(self.blocks(x, mask=mask, is_causal=True)))


def small_gpt() -> dict[str, Any]:
    training, validation, alphabet = text()
    return parts(SmallGPT(alphabet), tokens_last, loaders((training, validation)), rate=2e-3)


def _reversed() -> tuple[Tensor, Tensor]:
    digits = torch.from_numpy(np.random.default_rng(14).integers(2, 12, (1500, 6)))
    first = digits.new_ones(len(digits), 1)
    return digits, torch.cat([first, digits.flip(1)], 1)


class Translator(nn.Module):
    """Encoder and decoder; the target is shifted by one."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(12, width), Positions(width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 12)

    def forward(self, source: Tensor, before: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(before.shape[1], device=before.device)
        put = [self.positions(self.tokens(ids)) for ids in (source, before)]
        return self.head(self.transformer(*put, tgt_mask=mask, tgt_is_causal=True))


def translator() -> dict[str, Any]:
    source, target = _reversed()
    return parts(Translator(), tokens_last, loaders(split(source, target[:, :-1], target[:, 1:])), rate=2e-3)


def tagger() -> dict[str, Any]:
    """Whether each token is larger than the one before it; positions of no token carry the ignored label."""

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(30, 24)
            self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
            self.head = nn.Linear(48, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            lengths = (tokens > 0).sum(1)
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            read = nn.utils.rnn.pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=tokens.shape[1]
            )[0]
            return self.head(read)

    noise = np.random.default_rng(15)
    tokens = torch.from_numpy(noise.integers(1, 30, (1200, 12)))
    tags = torch.cat([torch.full((1200, 1), -100), (tokens[:, 1:] > tokens[:, :-1]).long()], 1)
    length = torch.from_numpy(noise.integers(6, 13, (1200, 1)))
    gone = torch.arange(12) >= length
    sets = split(tokens.masked_fill(gone, 0), tags.masked_fill(gone, -100))
    return parts(Tagger(), tokens_last, loaders(sets), rate=5e-3)


def masked_words() -> dict[str, Any]:
    """A token that is hidden is guessed from its neighbours; the others are ignored by the loss."""

    class Guesser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.positions = nn.Embedding(21, 32), Positions(32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 21)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.encoder(self.positions(self.embedding(tokens))))

    noise = np.random.default_rng(16)
    counting = 1 + (noise.integers(0, 20, (1500, 1)) + noise.integers(1, 4, (1500, 1)) * np.arange(10)) % 20
    tokens, hidden = torch.from_numpy(counting), torch.from_numpy(noise.random((1500, 10)) < 0.2)
    hidden[:, 3] = True
    sets = split(tokens.masked_fill(hidden, 0), tokens.masked_fill(~hidden, -100))
    return parts(Guesser(), tokens_last, loaders(sets), rate=2e-3)


class BagOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 16, padding_idx=0)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.bag(tokens))


def bag_of_words() -> dict[str, Any]:
    return parts(BagOfWords(), nn.CrossEntropyLoss(), sentence_loaders(), rate=2e-2)


def connectionist() -> dict[str, Any]:
    """Symbols read off a longer signal without their places (CTC, Graves et al. 2006)."""

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv1d(6, 32, 3, padding=1), nn.ReLU(), nn.Conv1d(32, 32, 3, padding=1), nn.ReLU()
            )
            self.gru = nn.GRU(32, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 6)

        def forward(self, x: Tensor) -> Tensor:
            return F.log_softmax(self.head(self.gru(self.conv(x).transpose(1, 2))[0]), 2)

    noise = np.random.default_rng(17)
    symbols = noise.integers(1, 6, (800, 5))
    signal = np.repeat(np.eye(6)[symbols], 4, 1) + 0.1 * noise.normal(size=(800, 20, 6))

    def loss(output: Tensor, target: Tensor) -> Tensor:
        count = len(target)
        return F.ctc_loss(output.transpose(0, 1), target, torch.full((count,), 20), torch.full((count,), 5))

    sets = split(torch.from_numpy(signal).float().transpose(1, 2).contiguous(), torch.from_numpy(symbols))
    return parts(Reader(), loss, loaders(sets), rate=5e-3)
