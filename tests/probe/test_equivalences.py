"""Runs that must agree: resumed and uninterrupted, a model and the copy that averages it, float32 and float16."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RESUME, COPY, HALF = "resume-loses-state", "averaged-copy-wrong", "half-precision-overflows"


class Counter:
    """A callback with state of its own, saved or not."""

    def __init__(self) -> None:
        self.value = 0.0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value = state["value"]


def stateful(*, saved: bool, used: bool = True) -> Trial:
    """A trial whose loss is scaled by a number that grows with every step."""
    model, counter = mlp(), Counter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        counter.value += 1.0
        optimizer.zero_grad()
        loss = cross_entropy(model, batch) * (1 + counter.value * used)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=step)
    trial.objects = (counter, step)
    trial.saved = {"model": model, "optimizer": optimizer, **({"counter": counter} if saved else {})}
    return trial


def test_state_that_is_saved_resumes() -> None:
    verdict = ask(RESUME, stateful(saved=True))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "bit for bit" in verdict.summary


class StillBody(nn.Sequential):
    """A body that stays in evaluation mode, as transfer learning has it."""

    def train(self, mode: bool = True) -> StillBody:
        super().train(mode)
        self[0].eval()
        return self


def test_a_mode_that_train_sets_is_not_lost() -> None:
    model = StillBody(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), nn.Linear(8, 5))
    trial = trial_of(model, classes(8), cross_entropy)
    optimizer, entered = next(iter(trial.optimizers.values())), []

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        if not entered:  # a framework sets the mode where training begins
            entered.append(model.train())
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial.train_step = step
    trial.evaluate_step = None
    trial.saved = {"model": model, "optimizer": optimizer}
    assert ask(RESUME, trial).outcome is Outcome.PASS


def test_state_that_is_not_saved_is_named() -> None:
    verdict = ask(RESUME, stateful(saved=False))
    assert verdict.outcome is Outcome.FAIL
    assert "lacks state of `Counter`" in verdict.findings[0].message
    assert "`value` is 0.0" in verdict.findings[0].message
    assert "loss of step 4" in verdict.summary


def test_state_that_only_a_report_shows_is_a_warning() -> None:
    trial = stateful(saved=False, used=False)
    inner, counter = trial.train_step, trial.objects[0]
    trial.train_step = lambda batch, index: {**inner(batch, index), "seen": counter.value}  # type: ignore[attr-defined]
    verdict = ask(RESUME, trial)
    assert verdict.outcome is Outcome.WARN
    assert "lacks state of `Counter`" in verdict.findings[0].message


def test_state_that_changes_nothing_may_be_lost() -> None:
    assert ask(RESUME, stateful(saved=False, used=False)).outcome is Outcome.PASS


def test_metrics_that_are_lists_of_tensors_are_compared_item_by_item() -> None:
    trial = stateful(saved=True)
    inner = trial.train_step
    trial.train_step = lambda batch, index: {**inner(batch, index), "seen": [batch[0], {"at": batch[1]}]}
    assert ask(RESUME, trial).outcome is Outcome.PASS


def test_an_optimizer_left_out_of_the_checkpoint() -> None:
    trial = stateful(saved=True)
    assert trial.saved is not None
    trial.saved = {name: part for name, part in trial.saved.items() if name != "optimizer"}
    assert ask(RESUME, trial).outcome is not Outcome.PASS


def test_a_run_that_never_repeats_itself_cannot_be_compared() -> None:
    trial = stateful(saved=True)
    inner, noise = trial.train_step, iter(range(1, 1000))

    def step(batch: Any, index: int) -> Any:
        return inner((batch[0] * (1 + next(noise) * 1e-3), batch[1]), index)

    trial.train_step = step
    verdict = ask(RESUME, trial)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "two runs from the same state differ" in verdict.reason


def test_who_writes_checkpoints_alone_is_left_alone() -> None:
    assert ask(RESUME, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))


class Holder:
    def __init__(self, ema: Any) -> None:
        self.ema = ema


Update = Callable[[nn.Module, Any], None]


@torch.no_grad()
def average(model: nn.Module, ema: nn.Module, decay: float = 0.9, buffers: bool = True) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters(), strict=True):
        mine.lerp_(theirs, 1 - decay)
    for mine, theirs in zip(ema.buffers(), model.buffers(), strict=True):
        if buffers:
            mine.copy_(theirs)


def averaged(update: Update, model: nn.Module | None = None, ema: Any = None, evaluate: bool = True) -> Trial:
    model = model or normed()
    ema = ema if ema is not None else deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        model.train()
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        update(model, ema)
        return {"loss": loss.detach()}

    @torch.no_grad()
    def evaluated(batch: Any) -> dict[str, float]:
        used = ema.eval() if evaluate and isinstance(ema, nn.Module) else model.eval()
        return {"loss": float(cross_entropy(used, batch))}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=step, evaluate=evaluated)
    trial.objects = (Holder(ema),)
    return trial


def fault(trial: Trial) -> Verdict:
    verdict = ask(COPY, trial)
    assert verdict.outcome is Outcome.FAIL, verdict
    return verdict


def test_an_average_of_weights_and_statistics_passes_with_its_decay() -> None:
    verdict = ask(COPY, averaged(average))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "`Holder.ema` keeps 0.9 of itself" in verdict.summary


def test_a_decay_that_ramps_up_passes() -> None:
    steps = iter(range(1, 100))
    verdict = ask(COPY, averaged(lambda model, ema: average(model, ema, (1 + (n := next(steps))) / (10 + n))))
    assert verdict.outcome is Outcome.PASS, verdict


def test_statistics_that_stay_behind_are_told_only_where_they_are_read() -> None:
    behind = averaged(lambda model, ema: average(model, ema, buffers=False))
    assert ask(COPY, behind).outcome is Outcome.WARN  # update_bn may come before the program's own evaluation
    behind.saved = {}
    verdict = fault(behind)
    assert "running statistics of `Holder.ema` never move (`1.running_mean`)" in verdict.findings[0].message
    unread = averaged(lambda model, ema: average(model, ema, buffers=False), evaluate=False)
    assert ask(COPY, unread).outcome is Outcome.PASS


def test_weights_left_out_of_the_average() -> None:
    @torch.no_grad()
    def some(model: nn.Module, ema: nn.Module) -> None:
        average(model, ema)
        for mine, kept in zip(ema[3].parameters(), before, strict=True):
            mine.copy_(kept)

    model = normed()
    before = [weight.detach().clone() for weight in model[3].parameters()]
    verdict = fault(averaged(some, model))
    assert "2 of 6 weights of `Holder.ema` never move" in verdict.findings[0].message


def test_decay_and_its_complement_exchanged() -> None:
    assert "averages nothing" in fault(averaged(lambda model, ema: average(model, ema, 0.001))).summary


def test_an_average_that_is_written_back_to_the_model() -> None:
    @torch.no_grad()
    def swapped(model: nn.Module, ema: nn.Module, kept: float = 0.995) -> None:
        for mine, theirs in zip(model.parameters(), ema.parameters(), strict=True):
            mine.copy_(kept * theirs + (1 - kept) * mine)
        average(model, ema)

    told = fault(averaged(swapped)).findings[0].message
    assert "after each optimizer step the model is drawn back to `Holder.ema`: 0.005 of the step is left" in told
    for elastic in (0.1, 0.4):
        gentle = averaged(lambda model, ema, kept=elastic: swapped(model, ema, kept), mlp())
        assert ask(COPY, gentle).outcome is Outcome.PASS


def test_a_model_set_to_its_slow_copy_now_and_then_passes() -> None:
    steps = iter(range(1, 100))

    @torch.no_grad()
    def lookahead(model: nn.Module, slow: nn.Module) -> None:
        if next(steps) % 3:
            return
        for mine, kept in zip(model.parameters(), slow.parameters(), strict=True):
            kept.lerp_(mine, 0.5)
            mine.copy_(kept)

    assert ask(COPY, averaged(lookahead, mlp())).outcome is Outcome.PASS


def test_a_copy_that_runs_away() -> None:
    assert "moves away from the model" in fault(averaged(lambda model, ema: average(model, ema, 1.1))).summary


def test_a_copy_that_is_the_model() -> None:
    model = mlp()
    shared = mlp()
    for mine, theirs in zip(shared.parameters(), model.parameters(), strict=True):
        mine.data = theirs.data
    assert "lie in the model's own memory" in fault(averaged(lambda *_: None, model, shared)).summary


def test_an_average_kept_in_a_dict_that_is_made_anew() -> None:
    model = mlp()
    shadow = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    def update(live: nn.Module, kept: dict[str, Tensor]) -> None:
        for name, weight in live.named_parameters():
            kept[name] = 0.5 * kept[name] + 0.5 * weight.detach()

    verdict = ask(COPY, averaged(update, model, shadow))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "keeps 0.5 of itself" in verdict.summary


def test_a_teacher_that_stays_is_not_judged_and_an_average_that_stays_is() -> None:
    trial = averaged(lambda *_: None)
    trial.objects = (type("Distillation", (), {})(),)
    vars(trial.objects[0])["teacher"] = deepcopy(trial.models["model"])
    assert ask(COPY, trial).outcome is Outcome.INCONCLUSIVE
    still = ask(COPY, averaged(lambda *_: None))
    assert still.outcome is Outcome.WARN
    assert "`Holder.ema` is used in evaluation and did not move" in still.summary


def test_two_networks_that_are_both_trained_are_no_copies() -> None:
    one, other = mlp(), mlp()
    optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
    trial = trial_of(one, classes(8), cross_entropy, optimizer)
    trial.objects = (Holder(other),)
    assert ask(COPY, trial).outcome is Outcome.SKIP


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
    assert verdict.findings[0].location.path.endswith("test_equivalences.py")


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
