"""What the hooks that only watch add to a training step, as a share of it, on small models of several kinds.

    python tests/benchmarks/watching.py                  # a table; exit code 1 where one adds more than 10 %
    python tests/benchmarks/watching.py --rounds 400
    python tests/benchmarks/watching.py --device cuda    # by the clock, each time until the device has finished

A call of Python's costs what it costs: steps below 2 ms are shown with what is added, and not held to the share.

Paired: a few steps without the hooks and as many with them, which enter once for all of them as in a probe, take turns
on the same batch. What counts is the processor time of this process, at the median over the rounds of pairs, with the
interval of that median at 95 % (order statistics).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mlcheck.probe.measure.drive import await_device
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.modules import ModuleWatch, Names
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.training.short_run import kept_graphs
from mlcheck.probe.measure.training.update_watch import UpdateWatch

LIMIT = 0.10
LEAST_S = 2e-3
STEPS = 3  # as many as the probe takes that watches every parameter
Step = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    rounds, only, device = asked.rounds, asked.only, torch.device(asked.device)
    torch.set_num_threads(1)
    dear = 0
    print(f"{'model':<22}{'step':>9}  hooks")
    for name, build in MODELS.items():
        if only not in name:
            continue
        torch.manual_seed(0)
        with device:  # a default for all would be asked about in every call of a step
            model, step = build()
        for _ in range(5):
            step()
        for kind, watch in watches(model).items():
            plain, added, low, high = paired(step, watch, rounds, device)
            over = low > LIMIT and plain >= LEAST_S
            dear += over
            told = f"{added:>7.1%}  ({low:.1%} to {high:.1%})  {1e6 * added * plain:>5.0f} us"
            print(f"{name:<22}{1e3 * plain:>6.2f} ms  {kind:<26}{told}{'  OVER' if over else ''}", flush=True)
    return int(dear > 0)


def watches(model: nn.Module) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    models = {"model": model}
    parameters = named_parameters(models)
    return {
        "losses": LossWatch,
        "modules": ModuleWatch,
        "backward": lambda: GradientWatch([]),
        "gradients by parameter": lambda: GradientWatch(parameters),
        "updates, graphs": lambda: _both(UpdateWatch(parameters, Names(models)), kept_graphs(), GradientWatch([])),
    }


@contextmanager
def _both(*managers: AbstractContextManager[Any]) -> Any:
    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager)
        yield


def paired(
    step: Step, watch: Callable[[], AbstractContextManager[Any]], rounds: int, device: torch.device
) -> tuple[float, float, float, float]:
    """Seconds of a plain step; what watching adds, as a share, with its interval."""
    plain, shares = [], []
    for turn in range(rounds):
        if turn % 2:
            watched, bare = _watched(step, watch, device), _timed(step, device)
        else:
            bare, watched = _timed(step, device), _watched(step, watch, device)
        plain.append(bare)
        shares.append(watched / bare - 1)
    shares.sort()
    half = 0.98 * rounds**0.5  # of the binomial that counts the pairs below the median
    low, high = shares[int(rounds / 2 - half)], shares[min(rounds - 1, int(rounds / 2 + half))]
    return median(plain), median(shares), low, high


def _watched(step: Step, watch: Callable[[], AbstractContextManager[Any]], device: torch.device) -> float:
    with watch():
        return _timed(step, device)


def _timed(step: Step, device: torch.device) -> float:
    now = time.process_time if device.type == "cpu" else time.perf_counter
    await_device(device)
    start = now()
    for _ in range(STEPS):
        step()
    await_device(device)
    return (now() - start) / STEPS


def _trained(model: nn.Module, inputs: Tensor, loss: Callable[[Any], Tensor]) -> tuple[nn.Module, Step]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss(model(inputs)).backward()
        optimizer.step()

    return model, step


def _table() -> tuple[nn.Module, Step]:
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    labels = torch.randint(5, (64,))
    return _trained(model, torch.randn(64, 30), lambda out: F.cross_entropy(out, labels))


def _pictures() -> tuple[nn.Module, Step]:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    labels = torch.randint(10, (32,))
    return _trained(model, torch.randn(32, 3, 32, 32), lambda out: F.cross_entropy(out, labels))


def _sequences() -> tuple[nn.Module, Step]:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.Sequential(
        nn.Linear(16, 64), nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(64, 1)
    )
    target = torch.randn(16, 24, 1)
    return _trained(model, torch.randn(16, 24, 16), lambda out: F.mse_loss(out, target))


def _recurrent() -> tuple[nn.Module, Step]:
    target = torch.randn(16, 20, 32)
    return _trained(nn.LSTM(8, 32, batch_first=True), torch.randn(16, 20, 8), lambda out: F.mse_loss(out[0], target))


MODELS: dict[str, Callable[[], tuple[nn.Module, Step]]] = {
    "perceptron": _table,
    "convolutions": _pictures,
    "transformer": _sequences,
    "lstm": _recurrent,
}

if __name__ == "__main__":
    sys.exit(main())
