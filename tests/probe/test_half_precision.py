"""What is computed in float16 must fit into it, as it does in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="what a GPU does is acted out on the CPU without one")

HALF = "half-precision-overflows"


class Masked(nn.Module):
    """Scores, masked with a constant, as attention has them; `gain` makes them large."""

    def __init__(self, mask: float, gain: float = 1.0) -> None:
        super().__init__()
        self.inner, self.head, self.mask, self.gain = nn.Linear(8, 16), nn.Linear(16, 5), mask, gain

    def forward(self, x: Tensor) -> Tensor:
        scores = self.head(F.relu(self.inner(x)) * self.gain)
        hidden = scores.masked_fill(torch.zeros_like(scores, dtype=torch.bool), self.mask)
        return hidden / self.gain


def mixed(model: nn.Module, dtype: torch.dtype | None = None, device: str = "cuda") -> Trial:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        with torch.autocast(device, dtype=dtype):
            out = module(batch[0])
        return F.cross_entropy(out.float(), batch[1])

    return trial_of(model, classes(8), loss)


@pytest.mark.parametrize("mask", [-1e4, float("-inf")])
def test_what_fits_into_float16_passes(mask: float) -> None:
    verdict = ask(HALF, mixed(Masked(mask)))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "float16" in verdict.summary


class Growing(nn.Module):
    """Scores that grow by a `factor` with every step, up to a million times."""

    calls: Tensor

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.head, self.factor = nn.Linear(8, 5), factor
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        size = (self.factor**self.calls).clamp_max(1e6)
        self.calls += 1
        return self.head(x * size).float() / size


@pytest.mark.parametrize(("factor", "outcome"), [(1.5, Outcome.FAIL), (1.01, Outcome.PASS)])
def test_values_that_overflow_once_they_have_grown(factor: float, outcome: Outcome) -> None:
    verdict = ask(HALF, mixed(Growing(factor)))
    assert verdict.outcome is outcome, verdict
    assert verdict.summary.startswith("after ") is (outcome is Outcome.FAIL)


class Halved(nn.Module):
    """Inputs brought to length one, in float16 as the program itself turns them."""

    def __init__(self, gain: float, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.head, self.gain, self.dtype = nn.Linear(8, 5), gain, dtype

    def forward(self, x: Tensor) -> Tensor:
        x = (x * self.gain).to(self.dtype)
        return self.head((x / x.square().sum(1, keepdim=True).sqrt()).float())


def test_what_a_program_turns_to_float16_itself() -> None:
    verdict = ask(HALF, trial_of(Halved(1000.0), classes(8), cross_entropy))
    assert verdict.outcome is Outcome.FAIL, verdict
    assert "in float16 the result overflows" in verdict.summary
    assert ask(HALF, trial_of(Halved(1.0), classes(8), cross_entropy)).outcome is Outcome.PASS
    assert ask(HALF, trial_of(Halved(1000.0, torch.bfloat16), classes(8), cross_entropy)).outcome is Outcome.SKIP


class Shifted(nn.Module):
    """Inputs of which autocast makes infinite ones, for a layer or (`added`) for a mask that stays in float32."""

    def __init__(self, added: bool) -> None:
        super().__init__()
        self.inner, self.head, self.added = nn.Linear(8, 16), nn.Linear(16, 5), added

    def forward(self, x: Tensor) -> Tensor:
        if self.added:
            self.far = (torch.full((5,), -1e9)).to(torch.float16)
            return self.head(self.inner(x).relu())
        return self.head(self.inner(x * 1e5).relu())


@pytest.mark.parametrize(("added", "outcome"), [(False, Outcome.FAIL), (True, Outcome.PASS)])
def test_inputs_that_are_infinite_in_float16(added: bool, outcome: Outcome) -> None:
    verdict = ask(HALF, mixed(Shifted(added)))
    assert verdict.outcome is outcome, verdict
    assert ("addmm of values up to" in verdict.summary or "linear of values" in verdict.summary) is (not added)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_mask_that_does_not_fit(device: str) -> None:
    verdict = ask(HALF, mixed(Masked(-1e9), torch.float16, device))
    assert verdict.outcome is Outcome.FAIL
    assert "in float32 it does not" in verdict.findings[0].message
    assert verdict.findings[0].location.symbol == "Masked.forward"


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_values_that_overflow_are_told_with_their_operation(device: str) -> None:
    verdict = ask(HALF, mixed(Masked(-1.0, gain=3e5), torch.float16, device))
    assert verdict.outcome is Outcome.FAIL
    assert "overflows: mul of values up to" in verdict.findings[0].message
    assert verdict.findings[0].location.path.endswith("test_half_precision.py")


@pytest.mark.parametrize(
    "trial",
    [
        lambda: trial_of(Masked(-1e9), classes(8), cross_entropy),
        lambda: mixed(Masked(-1e9), torch.bfloat16),
        lambda: mixed(Masked(-1e9), torch.bfloat16, "cpu"),
    ],
    ids=["float32", "bfloat16", "bfloat16 on the CPU"],
)
def test_who_does_not_compute_in_float16_is_not_asked(trial: Callable[[], Trial]) -> None:
    assert ask(HALF, trial()).outcome is Outcome.SKIP


class Guarded(nn.Module):
    """Scores that `last` makes of a linear layer's, as a likelihood or a norm does."""

    def __init__(self, last: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(8, 5), last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(x))


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (lambda x: (x.sigmoid() + 1e-8).log(), "1e-08, which keeps `log` from zero, is 0 in float16"),
        (lambda x: x.sigmoid().clamp(min=1e-12).log(), "1e-12, which keeps `log` from zero"),
        (lambda x: x / (x.std(1, keepdim=True) + 1e-8), "1e-08, which keeps `div` from zero"),
        (lambda x: (x.sigmoid().float() + 1e-8).log(), ""),
        (lambda x: (x.sigmoid() + 1e-4).log(), ""),
        (lambda x: x * (x.pow(2).mean(1, keepdim=True) + 1e-8).rsqrt(), ""),
        (lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-8), ""),
        (lambda x: (x + 1e-8).relu(), ""),
    ],
    ids=("log", "clamp", "quotient", "in float32", "large enough", "power", "norm", "no guard"),
)
def test_a_guard_that_is_zero_in_float16(last: Callable[[Tensor], Tensor], said: str) -> None:
    verdict = ask(HALF, mixed(Guarded(last)))
    assert verdict.outcome is (Outcome.WARN if said else Outcome.PASS), verdict
    assert said in verdict.summary


@pytest.mark.parametrize("scaled", [True, False])
def test_gradients_too_small_for_float16_need_a_scaler(scaled: bool) -> None:
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    trial = mixed(Masked(-1.0))
    model, optimizer = trial.models["model"], trial.optimizers["optimizer"]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            out = model(batch[0])
        loss = F.cross_entropy(out.float(), batch[1]) * 1e-7
        (scaler.scale(loss) if scaled else loss).backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial.train_step = step
    verdict = ask(HALF, trial)
    assert verdict.outcome is (Outcome.PASS if scaled else Outcome.WARN), verdict
    assert ("no GradScaler" in verdict.summary) is not scaled


@pytest.mark.parametrize(("scaled", "outcome"), [(True, Outcome.PASS), (False, Outcome.FAIL)])
def test_gradients_that_a_scaler_makes_too_large_at_first(scaled: bool, outcome: Outcome) -> None:
    scaler, model = torch.amp.GradScaler("cpu", init_scale=2.0**24), mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(batch[0]).float(), batch[1])
        if scaled:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            (loss * 2.0**24).backward()
        return {"loss": loss.detach()}

    verdict = ask("half-precision-overflows", trial_of(model, classes(8), cross_entropy, optimizer, step))
    assert verdict.outcome is outcome, verdict
