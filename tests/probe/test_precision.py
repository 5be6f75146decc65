"""Mixed precision: how a loop uses its scaler, and how far autocast takes each layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="what a GPU does is acted out on the CPU without one")
ORDER, DIVERGES = "scaler-out-of-order", "half-precision-diverges"
Step = Callable[[nn.Module, torch.optim.Optimizer, torch.amp.GradScaler, Tensor, int], None]


def scaled(step: Step, device: str = "cuda") -> Trial:
    """A loop under autocast whose scaler is used as `step` does, given the loss of a batch."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(device, enabled=device == "cpu")

    def train_step(batch: Any, index: int) -> dict[str, Tensor]:
        with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
            loss = F.cross_entropy(model(batch[0]).float(), batch[1])
        step(model, optimizer, scaler, loss, index)
        return {"loss": loss.detach()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=train_step)
    trial.objects = (scaler,)
    return trial


def plain(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def clipping(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()


def accumulating(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, index: int) -> None:
    scaler.scale(loss / 2).backward()
    if index % 2:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def by_hand(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
    scaler.step(optimizer)
    scaler.update()


def unscaled_step(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()


def clips_scaled(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()


def bypasses(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()
    scaler.update()


def never_scales(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    loss.backward()
    scaler.step(optimizer)
    scaler.update()


def never_updates(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)


def unscales_each(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, index: int) -> None:
    scaler.scale(loss / 2).backward()
    scaler.unscale_(optimizer)
    if index % 2:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def unscales_and_never_updates(model: nn.Module, optimizer: Any, scaler: Any, loss: Tensor, _: int) -> None:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)


FAULTS = {
    unscales_and_never_updates: "scaler.unscale_ is called again without an update",
    clips_scaled: "gradients are clipped while they are still scaled",
    bypasses: "the optimizer steps along the scaled gradients",
    never_scales: "scaler.step divides gradients by a scale that their loss was never multiplied with",
    never_updates: "scaler.step is called again without an update",
    unscales_each: "scaled gradients are added to gradients that were unscaled already",
}


@pytest.mark.parametrize("step", FAULTS, ids=lambda step: step.__name__)
def test_an_order_that_is_wrong_is_named_with_its_line(step: Step) -> None:
    verdict = ask(ORDER, scaled(step))
    assert verdict.outcome is Outcome.FAIL
    assert FAULTS[step] in verdict.summary
    assert verdict.findings[0].location.path.endswith("test_precision.py")


@pytest.mark.parametrize(
    "step", [plain, clipping, accumulating, by_hand, unscaled_step], ids=lambda step: step.__name__
)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_an_order_that_is_right_passes(step: Step, device: str) -> None:
    for seed in range(4):
        torch.manual_seed(seed)
        verdict = ask(ORDER, scaled(step, device))
        assert verdict.outcome is Outcome.PASS, verdict


def test_two_optimizers_share_a_scaler() -> None:
    model, critic = mlp(), mlp()
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, critic)]
    scaler = torch.amp.GradScaler("cuda", enabled=False)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        for net, optimizer in zip((model, critic), optimizers):
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = F.cross_entropy(net(batch[0]), batch[1])
            scaler.scale(loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        return {}

    trial = trial_of(model, classes(8), cross_entropy, optimizers[0], step=step)
    trial.models, trial.optimizers = {"g": model, "d": critic}, {"g": optimizers[0], "d": optimizers[1]}
    trial.objects = (scaler,)
    assert ask(ORDER, trial).outcome is Outcome.PASS


def test_without_a_scaler_or_with_all_of_it_switched_off_nothing_is_asked() -> None:
    assert "no gradient scaler" in ask(ORDER, SOUND["mlp"]()).reason
    assert "does not use mixed precision" in ask(DIVERGES, SOUND["mlp"]()).reason


def under_autocast(model: nn.Module, dtype: torch.dtype, batches: list[Any] | None = None) -> Trial:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = F.cross_entropy(model(batch[0]).float(), batch[1])
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    return trial_of(model, batches or classes(8), cross_entropy, optimizer, step=step)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sound_layers_are_within_a_few_units_of_roundoff(dtype: torch.dtype) -> None:
    for seed in range(10):
        torch.manual_seed(seed)
        deep = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.3), *mlp(32))
        verdict = ask(DIVERGES, under_autocast(deep, dtype))
        assert verdict.outcome is Outcome.PASS, verdict.summary
        assert 0 < verdict.numbers["largest error"] < 5


def test_a_layer_that_loses_its_digits_is_the_first_one_named() -> None:
    class Offset(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 2000.0

    model = nn.Sequential(nn.Linear(8, 32), Offset(), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 5))
    nn.init.constant_(model[2].weight, 0.03)
    verdict = ask(DIVERGES, under_autocast(model, torch.float16))
    assert verdict.outcome is Outcome.WARN
    assert "`3` (LayerNorm) is the first layer whose output leaves that of float32" in verdict.summary


def outside_of_autocast(model: nn.Module) -> Trial:
    trial = under_autocast(model, torch.float16)
    optimizer = trial.optimizers["optimizer"]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        out = model(batch[0])
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(out, batch[1])
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial.train_step = step
    return trial


def test_a_model_that_runs_outside_of_autocast() -> None:
    verdict = ask("autocast-without-effect", outside_of_autocast(mlp()))
    assert verdict.outcome is Outcome.WARN
    assert "none of 3 linear and convolutional layers computes in it (`0`, `2`, `4`)" in verdict.summary
    assert ask("autocast-without-effect", under_autocast(mlp(), torch.bfloat16)).outcome is Outcome.PASS
    assert ask("autocast-without-effect", SOUND["mlp"]()).outcome is Outcome.SKIP
    assert ask(DIVERGES, outside_of_autocast(mlp())).outcome is Outcome.INCONCLUSIVE


def test_a_forward_pass_that_draws_decides_nothing() -> None:
    class Noise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.randn_like(x)

    verdict = ask(DIVERGES, under_autocast(nn.Sequential(Noise(), *mlp()), torch.float16))
    assert verdict.outcome is Outcome.INCONCLUSIVE
