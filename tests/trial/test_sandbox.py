"""The sandbox puts everything back: proven by bits, and by training that repeats itself exactly."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from mlcheck.trial.sandbox import differences, restore, restored, snapshot
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 6)
        self.decode = nn.Linear(6, 6)
        self.decode.weight = self.encode.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(torch.relu(self.encode(x)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 6, num_layers=2, dropout=0.3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x.unsqueeze(1))[0].squeeze(1)


class Counting(nn.Module):
    """Keeps plain state: a counter, a list, a dict of tensors, a cached output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.calls = 0
        self.seen: list[float] = []
        self.cache: dict[str, torch.Tensor] = {"sum": torch.zeros(6)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(x.sum().item())
        self.cache["sum"] += x.detach().sum(0)
        self.cache["last"] = x.detach()
        return self.layer(x) * (1 + 0.1 * self.calls)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "batch norm and dropout": lambda: nn.Sequential(
        nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.4), nn.Linear(6, 6)
    ),
    "spectral norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Linear(6, 6)),
    "old spectral norm": lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 6)), nn.Linear(6, 6)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
    "tied weights": Tied,
    "lstm": Recurrent,
    "plain state": Counting,
}


class Momentum(torch.optim.Optimizer):
    """An optimizer of the user's, with state in lists and plain attributes."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.05})
        self.steps = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                history = self.state[parameter].setdefault("history", [])
                history.append(parameter.grad.clone())
                parameter -= group["lr"] / self.steps * sum(history[-3:])


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "tensor lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "own": Momentum,
}


def trial_of(model: nn.Module, optimizer: torch.optim.Optimizer, objects: tuple[Any, ...] = ()) -> Trial:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    def train_step(batch: torch.Tensor, _index: int) -> dict[str, float]:
        model.train()
        optimizer.zero_grad()
        loss = (model(batch + 0.1 * torch.randn_like(batch)) - batch.flip(1)).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return {"loss": loss.item()}

    return Trial(
        name="made",
        models={"model": model},
        optimizers={"optimizer": optimizer},
        schedulers={"scheduler": scheduler},
        train_step=train_step,
        train_batches=lambda: iter(()),
        owns_loop=True,
        entry=(__file__, 1),
        objects=objects,
    )


def run(trial: Trial, batch: torch.Tensor, steps: int = 4) -> list[float]:
    return [trial.train_step(batch, index)["loss"] for index in range(steps)]


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("model_name", MODELS)
def test_training_repeats_bitwise_after_restore(model_name: str, optimizer_name: str) -> None:
    torch.manual_seed(0)
    batch = torch.randn(8, 6)
    model = MODELS[model_name]()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    trial = trial_of(model, optimizer)
    run(trial, batch, 2)
    state = snapshot(trial)
    saved = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    parameters = list(model.parameters())
    first = run(trial, batch)
    assert differences(trial, state)
    restore(trial, state)
    assert differences(trial, state) == []
    assert [id(p) for p in model.parameters()] == [id(p) for p in parameters]
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved[0][name]), name
    assert repr(optimizer.state_dict()) == repr(saved[1])
    assert run(trial, batch) == first
    restore(trial, state)
    assert run(trial, batch) == first, "a state can be restored more than once"


def test_restores_a_state_before_the_first_step() -> None:
    """Optimizer state and gradients that did not exist yet disappear again."""
    model = nn.Linear(6, 6)
    optimizer = torch.optim.Adam(model.parameters())
    trial = trial_of(model, optimizer)
    with restored(trial) as state:
        run(trial, torch.randn(4, 6))
        assert model.weight.grad is not None
        assert optimizer.state
    assert state.unrestored == []
    assert model.weight.grad is None
    assert not optimizer.state


CHANGES: dict[str, tuple[Callable[[nn.Sequential, torch.optim.Optimizer], Any], str]] = {
    "one bit": (lambda m, o: m[0].weight.data.view(-1)[0].mul_(1 + 2**-23), "model.0.weight: its values changed"),
    "sign of zero": (lambda m, o: m[1].bias.data.neg_(), "model.1.bias: its values changed"),
    "buffer": (lambda m, o: m[1].running_mean.add_(1), "model.1.running_mean: its values changed"),
    "grad": (lambda m, o: setattr(m[0].weight, "grad", torch.ones(6, 6)), "model.0.weight: its gradient appeared"),
    "frozen": (lambda m, o: m[0].bias.requires_grad_(False), "model.0.bias: requires_grad became False"),
    "mode": (lambda m, o: m[1].eval(), "model.1: `training` became False"),
    "hook": (lambda m, o: m[0].register_forward_hook(lambda *_: None), "model.0._forward_hooks"),
    "replaced": (lambda m, o: setattr(m[0], "weight", nn.Parameter(torch.ones(6, 6))), "model.0._parameters"),
    "added module": (lambda m, o: m.append(nn.ReLU()), "model._modules"),
    "half": (lambda m, o: m.half(), "model.0.weight: its values changed"),
    "storage": (lambda m, o: setattr(m[0].weight, "data", m[0].weight.data + 1), "model.0.weight: its values changed"),
    "parametrized": (lambda m, o: nn.utils.parametrizations.orthogonal(m[0]), "model.0: its class became"),
    "lr": (lambda m, o: o.param_groups[0].update(lr=5.0), "optimizer.param_groups.0: `lr` became 5.0"),
    "group": (lambda m, o: o.add_param_group({"params": [nn.Parameter(torch.ones(1))]}), "optimizer.param_groups"),
    "python rng": (lambda m, o: random.random(), "Python's random generator: it moved on"),
    "numpy rng": (lambda m, o: np.random.rand(), "numpy's random generator: it moved on"),
    "torch rng": (lambda m, o: torch.rand(1), "torch's random generator: it moved on"),
    "grad mode": (lambda m, o: torch.set_grad_enabled(False), "grad mode: it became False"),
    "dtype": (lambda m, o: torch.set_default_dtype(torch.float64), "the default dtype: it became torch.float64"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen_and_undone(change: str) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trial = trial_of(model, optimizer)
    storage = model[0].weight.data_ptr()
    state = snapshot(trial)
    act, expected = CHANGES[change]
    act(model, optimizer)
    assert any(line.startswith(expected) for line in differences(trial, state)), differences(trial, state)
    restore(trial, state)
    assert differences(trial, state) == []
    assert model[0].weight.data_ptr() == storage
    assert model[0].weight.dtype is torch.float32


class Noisy(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rng.normal(size=2))


class Average:
    """The user's own helper: a shadow model, a counter, a list, a generator."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = copy.deepcopy(model)
        self.updates = 0
        self.history: list[float] = []
        self.rng = random.Random(5)

    def update(self, model: nn.Module) -> None:
        self.updates += 1
        self.history.append(self.rng.random())
        for mine, live in zip(self.shadow.parameters(), model.parameters(), strict=True):
            mine.data.lerp_(live.data, 0.5)


def test_the_users_own_objects_are_restored() -> None:
    model = nn.Linear(6, 6)
    average = Average(model)
    trial = trial_of(model, torch.optim.SGD(model.parameters(), lr=0.1), objects=(average,))
    before = average.shadow.weight.clone()
    with restored(trial) as state:
        run(trial, torch.randn(4, 6))
        average.update(model)
        assert any("shadow" in line for line in differences(trial, state))
    assert state.unrestored == []
    assert torch.equal(average.shadow.weight, before)
    assert (average.updates, average.history) == (0, [])
    assert average.rng.random() == random.Random(5).random()


def test_generators_of_samplers_loaders_and_datasets_are_restored() -> None:
    generator = torch.Generator().manual_seed(4)
    weighted = WeightedRandomSampler([1.0] * 8, 8, generator=torch.Generator().manual_seed(1))
    loaders = (
        DataLoader(TensorDataset(torch.arange(8)), batch_size=2, shuffle=True, generator=generator),
        DataLoader(TensorDataset(torch.arange(8)), batch_size=2, sampler=weighted),
        DataLoader(Noisy(), batch_size=2),
    )
    trial = trial_of(nn.Linear(6, 6), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0), objects=loaders)
    state = snapshot(trial)
    first = [str(list(loader)) for loader in loaders]
    assert [str(list(loader)) for loader in loaders] != first
    restore(trial, state)
    assert [str(list(loader)) for loader in loaders] == first


def test_variables_of_closures_are_restored() -> None:
    count, losses = 0, [1.0]

    def step() -> int:
        nonlocal count
        count += 1
        losses.append(0.0)
        return count

    trial = trial_of(nn.Linear(6, 6), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0), objects=(step,))
    with restored(trial):
        assert (step(), step()) == (1, 2)
    assert losses == [1.0]
    assert step() == 1


def test_restores_after_an_error_and_lets_it_through() -> None:
    model = nn.Linear(6, 6)
    trial = trial_of(model, torch.optim.SGD(model.parameters(), lr=0.1))
    before = model.weight.clone()

    def fail() -> None:
        with restored(trial):
            run(trial, torch.randn(4, 6))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.equal(model.weight, before)


def test_what_cannot_be_restored_is_told() -> None:
    lazy = nn.LazyLinear(3)
    trial = trial_of(lazy, torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0))
    with restored(trial) as state:
        lazy(torch.ones(2, 6))
    assert "model.weight: a lazy parameter got its shape" in state.unrestored


def test_large_data_is_watched_not_copied() -> None:
    class Holder:
        def __init__(self) -> None:
            self.data = torch.zeros(1_000_001)

    holder = Holder()
    trial = trial_of(nn.Linear(6, 6), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0), objects=(holder,))
    with restored(trial) as quiet:
        holder.data.sum()
    assert quiet.unrestored == []
    with restored(trial) as state:
        holder.data[0] = 1
    assert state.unrestored == ["Holder.data: its values were written to"]


def test_a_frozen_view_as_buffer_is_left_alone() -> None:
    """Buffers that repeat one element in memory cannot be written to, and need not be."""
    model = nn.Linear(6, 6)
    model.register_buffer("positions", torch.arange(4).expand(3, 4))
    model.register_buffer("empty", torch.empty(0))
    model.register_buffer("missing", None)
    trial = trial_of(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with restored(trial) as state:
        model.eval()
    assert state.unrestored == []
    assert model.training


@pytest.mark.filterwarnings("ignore:Sparse")  # torch says that they are in beta
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_sparse_tensors_are_compared_by_what_they_hold(layout: torch.layout) -> None:
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    one, other = dense.to_sparse(layout=layout), dense.to_sparse(layout=layout)
    assert same_bits(one, other)
    assert not same_bits(one, (2 * dense).to_sparse(layout=layout))
    assert not same_bits(one, dense.T.contiguous().to_sparse(layout=layout))
    assert not same_bits(one, torch.eye(2)[:1].expand(2, 2).to_sparse(layout=layout))
    assert not same_bits(one, dense)
