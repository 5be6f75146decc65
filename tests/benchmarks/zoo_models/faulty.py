"""The zoo's programs with one fault each. The first word list of a docstring is what a message that names it says."""

from __future__ import annotations

from typing import Any

import torch
from data import digits, loaders, table
from loops import stepwise
from sequence import CharacterLSTM, tokens_last
from tabular import hidden, linear_regression
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
from vision import batch_norm_cnn, classifier, lenet, mlp


def softmax_before_cross_entropy() -> dict[str, Any]:
    """softmax, probabilities"""
    return classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(1)))


def sigmoid_before_logits_loss() -> dict[str, Any]:
    """sigmoid, probabilities"""
    training, validation = table("breast_cancer")
    columns = [TensorDataset(s.tensors[0], s.tensors[1].float()[:, None]) for s in (training, validation)]
    model = nn.Sequential(hidden(30, 1), nn.Sigmoid())
    return classifier(model, loss=nn.BCEWithLogitsLoss()) | loaders(columns)


def likelihood_of_logits() -> dict[str, Any]:
    """log_softmax, log softmax, log-softmax, log-probabilities, log probabilities"""
    return mlp() | {"loss": nn.NLLLoss()}


def loss_grows() -> dict[str, Any]:
    """sign, maximis, rises, grows, increas"""
    return mlp() | {"loss": lambda output, target: -F.cross_entropy(output, target)}


def target_of_another_shape() -> dict[str, Any]:
    """broadcast"""
    parts = linear_regression()
    training, validation = table("diabetes", classes=False)
    columns = [TensorDataset(s.tensors[0], s.tensors[1][:, 0]) for s in (training, validation)]
    return parts | loaders(columns)


def head_not_in_optimizer() -> dict[str, Any]:
    """not in the optimizer, no optimizer, in no optimizer, missing from the optimizer, not optimized"""
    parts = lenet()
    parts["optimizer"] = torch.optim.Adam(parts["model"].parameters(), lr=2e-3)
    parts["model"][-1] = nn.Linear(32, 10)
    return parts


def layer_never_used() -> dict[str, Any]:
    """no gradient, None gradient, gradient is None, never got a gradient, not used, unused, never used"""

    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.relu(self.first(x.flatten(1))))

    return classifier(Forgetful())


def detached_features() -> dict[str, Any]:
    """no gradient, None gradient, gradient is None, detach"""

    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.head = nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.relu(self.features(x.flatten(1))).detach())

    return classifier(Detached())


def batch_is_mixed() -> dict[str, Any]:
    """mix, other samples, each other, batch dimension, batch independ, batch invar, across the batch"""

    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            seen = F.relu(self.first(x.flatten(1)))
            return self.last(seen.view(-1, len(x)).T.reshape(len(x), -1))

    return classifier(Mixing())


def input_is_not_used() -> dict[str, Any]:
    """input, ignor"""

    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.head = nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.relu(self.features(torch.zeros_like(x).flatten(1))))

    return classifier(Blind())


def weights_all_equal() -> dict[str, Any]:
    """equal, same value, identical, constant, symmetr, zero"""
    parts = mlp()
    for layer in parts["model"]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.01)
    return parts


def dead_from_the_start() -> dict[str, Any]:
    """dead, never active, zero for every"""
    parts = mlp()
    nn.init.constant_(parts["model"][1].bias, -30.0)
    return parts


def future_is_seen() -> dict[str, Any]:
    """future, later, causal"""
    from data import text

    class Peeping(CharacterLSTM):
        def __init__(self, alphabet: int) -> None:
            super().__init__(alphabet)
            self.lstm = nn.LSTM(64, 32, batch_first=True, bidirectional=True)

    training, validation, alphabet = text()
    model = Peeping(alphabet)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    return {"model": model, "optimizer": optimizer, "loss": tokens_last, **loaders((training, validation))}


def rate_too_high() -> dict[str, Any]:
    """learning rate, diverge"""
    parts = lenet()
    return parts | {"optimizer": torch.optim.SGD(parts["model"].parameters(), lr=60.0)}


def rate_too_low() -> dict[str, Any]:
    """learning rate"""
    parts = lenet()
    return parts | {"optimizer": torch.optim.SGD(parts["model"].parameters(), lr=1e-8)}


def gradients_never_cleared() -> dict[str, Any]:
    """zero_grad, zero-grad, clears, cleared, accumulat"""
    parts = mlp()
    model, optimizer = parts["model"], parts["optimizer"]

    def step(batch: Any) -> Tensor:
        model.train()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def cleared_before_the_step() -> dict[str, Any]:
    """zero_grad, zero-grad, clears, cleared"""
    parts = mlp()
    model, optimizer = parts["model"], parts["optimizer"]

    def step(batch: Any) -> Tensor:
        model.train()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def evaluated_in_train_mode() -> dict[str, Any]:
    """eval, train mode, training mode"""
    parts = batch_norm_cnn()
    model, optimizer = parts["model"], parts["optimizer"]
    model.append(nn.Dropout(0.2))

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(batch: Any) -> dict[str, float]:
        return {"loss": F.cross_entropy(model(batch[0]), batch[1]).item()}

    return parts | {"train_step": step, "evaluate_step": evaluate}


def graph_is_kept() -> dict[str, Any]:
    """graph, memory, held"""
    parts = mlp()
    model, optimizer = parts["model"], parts["optimizer"]
    losses: list[Tensor] = []

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        losses.append(loss)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def clipped_to_nothing() -> dict[str, Any]:
    """clip"""
    parts = lenet()
    model = parts["model"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-5)
        optimizer.step()
        return loss.detach()

    return stepwise(parts | {"optimizer": optimizer}, step)


def label_outside_the_classes() -> dict[str, Any]:
    """label, class, target"""
    training, _ = digits()
    training.tensors[1][700] = 10
    return mlp() | {"train_loader": DataLoader(training, 32, shuffle=True)}


def one_value_is_not_finite() -> dict[str, Any]:
    """nan, not finite, non-finite, infinite"""
    training, _ = digits()
    training.tensors[0][40:80, 0, 3, 3] = float("nan")
    return mlp() | {"train_loader": DataLoader(training, 32, shuffle=True)}


class SameSample(Dataset):
    def __init__(self, samples: TensorDataset) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index % 8]


def samples_repeat() -> dict[str, Any]:
    """repeat, same sample, duplicate, distinct, different samples"""
    return mlp() | {"train_loader": DataLoader(SameSample(digits()[0]), 32, shuffle=True)}


def validation_seen_in_training() -> dict[str, Any]:
    """both, overlap, validation, leak"""
    training, _ = digits()
    seen = TensorDataset(*(column[:300] for column in training.tensors))
    return mlp() | {"validation_loader": DataLoader(seen, 64)}


def labels_are_shuffled() -> dict[str, Any]:
    """label, noise, chance, signal"""
    training, validation = digits()
    order = torch.randperm(len(training), generator=torch.Generator().manual_seed(0))
    wrong = TensorDataset(training.tensors[0], training.tensors[1][order])
    return mlp() | loaders((wrong, validation))


def sorted_by_class() -> dict[str, Any]:
    """shuffl, sorted, order"""
    training, _ = digits()
    order = training.tensors[1].argsort()
    in_order = TensorDataset(*(column[order] for column in training.tensors))
    return mlp() | {"train_loader": DataLoader(in_order, 32)}
