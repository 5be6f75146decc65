"""The parts of a loop as they are measured: where loading surely sleeps, what a device still has to do."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of, trial_on
from torch import Tensor
from torch.utils.data import Dataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import Clock, await_device
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.speed import loop_rounds, step_time
from mlcheck.probe.measure.speed.loading_shares import Busy
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.speed.time_causes import Lost, cause


def slow(batches: list[Any]) -> Iterator[Any]:
    for batch in batches:
        time.sleep(0.03)
        yield batch


@pytest.mark.slow
def test_loading_that_sleeps_is_found_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_time, "_LOOKS_S", 1.0)
    monkeypatch.setattr(step_time, "_BLOCK_S", 0.2)
    trial = trial_of(mlp(), classes(8, batches=9), cross_entropy)
    batches = list(trial.train_batches())
    trial.train_batches = lambda: slow(batches)
    found = StepTime.measure(trial, 30.0)
    assert len(found.rounds) == 3
    assert min(each.waits for each in found.rounds) >= 0.03
    assert (found.lines.line.symbol, found.lines.line.path.endswith("test_step_time.py")) == ("slow", True)
    assert cause(found).busy in (Busy.SLEEP, Busy.UNKNOWN)  # unknown outside Linux


@pytest.mark.parametrize(("step_s", "rounds"), [(0.0, 1), (0.04, 3)])
def test_batches_that_take_far_too_long_are_seen_while_warming_up(
    monkeypatch: pytest.MonkeyPatch, step_s: float, rounds: int
) -> None:
    """Not where the steps take long as well: then the two are timed in turns."""
    monkeypatch.setattr(step_time, "_LOOKS_S", 0.2)
    monkeypatch.setattr(step_time, "_BLOCK_S", 0.1)
    monkeypatch.setattr(loop_rounds, "_ENDLESS_S", 0.02)
    batches = classes(8, batches=9)
    trial = trial_of(mlp(), batches, cross_entropy, step=lambda batch, _: time.sleep(step_s) or {})
    trial.train_batches = lambda: slow(batches)
    found = StepTime.measure(trial, 30.0)
    assert len(found.rounds) == rounds
    assert cause(found).lost is Lost.WAITING or rounds > 1


def test_a_few_batches_are_not_timed() -> None:
    with pytest.raises(NotMeasured, match="4 batches read: too few"):
        StepTime.measure(trial_of(mlp(), classes(8, batches=4), cross_entropy), 30.0)


def test_a_step_that_outlasts_the_limit_is_inconclusive() -> None:
    trial = trial_of(mlp(), classes(8, batches=9), cross_entropy, step=lambda batch, _: time.sleep(0.05) or {})
    with pytest.raises(NotMeasured, match="raise --time-limit") as told:
        StepTime.measure(trial, 0.1)
    assert told.value.outcome is Outcome.INCONCLUSIVE


def test_what_a_device_still_has_to_do_belongs_to_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that does what is queued only when it is waited for, 3 ms a step, and a clock that has run out."""
    queued: list[float] = []

    def work_off(_: torch.device) -> None:
        time.sleep(sum(queued))
        queued.clear()

    monkeypatch.setattr(loop_rounds, "await_device", work_off)
    trial = trial_of(mlp(), classes(8, batches=9), cross_entropy, step=lambda *_: queued.append(0.003) or {})
    trial.device = torch.device("cuda", 0)
    found = loop_rounds.Rounds(trial, Clock(0.0), Clock(60.0), workers=0, ahead=0).round(0.01)
    assert found.total >= 0.003
    assert found.alone >= 0.003
    assert found.needed == math.inf


def test_what_a_step_needs_is_timed_on_one_thread_without_what_others_took(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    kept = iter(range(100))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        step: Any = lambda *_: used.append(torch.get_num_threads()) or time.sleep(0.002) or {}  # noqa: E731
        trial = trial_of(mlp(), classes(8, batches=9), cross_entropy, step=step)
        rounds = loop_rounds.Rounds(trial, Clock(5.0), Clock(60.0), workers=1, ahead=1)
        monkeypatch.setattr(loop_rounds, "_kept_waiting", lambda: 0.0)
        assert rounds.round(0.01).needed >= 0.002
        assert (used[0], used[-1], torch.get_num_threads()) == (2, 1, 2)
        monkeypatch.setattr(loop_rounds, "_kept_waiting", lambda: float(next(kept)))
        assert rounds.round(0.01).needed < 0.0  # a second a step without a core, more than it takes
    finally:
        torch.set_num_threads(before)


def test_every_kind_of_device_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: waited.append(device.type))
    for name in ("cpu", "cuda", "mps"):
        await_device(torch.device(name))
    assert waited == ["cuda", "mps"]


class Sleepy(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 32 * 400

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.001)
        (inputs, labels), *_ = classes(8, batches=1, size=1)
        return inputs[0], labels[0]


@pytest.mark.slow
def test_workers_that_sleep_are_named_with_and_without_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_time, "_BLOCK_S", 0.3)
    for tool in (None, ""):
        if tool is not None:
            monkeypatch.setattr("mlcheck.trial.observe.stacks.py_spy", lambda: "")
        verdict = ask("loader-slower-than-step", trial_on(Sleepy(), num_workers=1))
        assert verdict.outcome in (Outcome.WARN, Outcome.INCONCLUSIVE)
        for finding in verdict.findings:
            assert "sleeps" in finding.message
            assert finding.location.symbol.endswith("Sleepy.__getitem__")
