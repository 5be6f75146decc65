"""What the examination sees and says on a machine with a GPU; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gpu_programs import MIXED, PLAIN, RANKS, program
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report, Result
from mlcheck.probe.engine import ProbeOptions, run_probes
from mlcheck.trial.observe.gpu import GpuWatch

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.slow,
]
BAD = {Outcome.FAIL, Outcome.WARN, Outcome.ERROR}


def report(folder: Path, text: str, *only: str) -> Report:
    (folder / "train.py").write_text(text)
    return run_probes(ProbeOptions("train.py", only=only, folder=str(folder)))


def told(found: Report) -> dict[str, Result]:
    return {item.decided.rule: item.decided for item in found.items()}


def complaints(found: Report) -> dict[str, str]:
    return {rule: result.headline for rule, result in told(found).items() if result.outcome in BAD}


@pytest.mark.parametrize("step", [PLAIN, MIXED], ids=["float32", "scaled float16"])
def test_nothing_is_said_of_a_sound_program(step: str, tmp_path: Path) -> None:
    scaler = 'scaler = torch.amp.GradScaler("cuda")' if step is MIXED else ""
    found = report(tmp_path, program(step, before=scaler))
    assert complaints(found) == {}
    assert found.environment["device"] == torch.cuda.get_device_name()
    assert {"CUDA", "cuDNN", "driver", "GPUs"} <= found.environment.keys()
    passed = {rule for rule, result in told(found).items() if result.outcome is Outcome.PASS}
    assert {"batch-copied-slowly", "sync-in-loop", "memory-piles-up", "run-not-repeatable"} <= passed


def test_the_cause_is_named_as_on_the_cpu(tmp_path: Path) -> None:
    found = report(tmp_path, program(last=", nn.Softmax(1)"))
    assert "softmax-before-ce" in complaints(found)


def test_reading_the_loss_in_every_step_waits_for_the_device(tmp_path: Path) -> None:
    step = f"{PLAIN}\n        total = total + loss.item() if 'total' in dir() else 0.0\n        norm = float(loss)"
    assert "sync-in-loop" in complaints(report(tmp_path, program(step), "sync-in-loop"))


def test_losses_kept_with_their_graphs_pile_up_on_the_device(tmp_path: Path) -> None:
    found = complaints(report(tmp_path, program(f"{PLAIN}\n        losses.append(loss)", before="losses = []")))
    assert found.keys() & {"loss-keeps-graph", "memory-piles-up", "graph-kept-across-steps"}


def test_workers_that_are_started_after_cuda(tmp_path: Path) -> None:
    found = report(tmp_path, program(loader=", num_workers=2, pin_memory=True"))
    assert complaints(found) == {}


def test_a_large_batch_is_copied_slowly_from_ordinary_memory(tmp_path: Path) -> None:
    text = program(PLAIN).replace("512, 3, 32, 32", "512, 3, 256, 256").replace("Conv2d(3, 16", "Conv2d(3, 4")
    text = text.replace("BatchNorm2d(16)", "BatchNorm2d(4)").replace("Conv2d(16, 32", "Conv2d(4, 32")
    text = text.replace("MaxPool2d(2)", "MaxPool2d(16)")
    verdict = told(report(tmp_path, text, "batch-copied-slowly"))["batch-copied-slowly"]
    assert verdict.outcome in {Outcome.WARN, Outcome.PASS}
    assert "not pinned" in verdict.headline


def test_a_compiled_model_is_compared_with_the_plain_one(tmp_path: Path) -> None:
    found = told(report(tmp_path, program(before="model = torch.compile(model)"), "compiled-model-differs"))
    assert found["compiled-model-differs"].outcome is Outcome.PASS, found["compiled-model-differs"]


def test_nan_that_comes_on_the_device_is_traced_to_its_line(tmp_path: Path) -> None:
    step = PLAIN.replace(
        "loss = F.cross_entropy(model(inputs), targets)",
        "scores = model(inputs)\n        scores = torch.log(scores)\n        loss = F.cross_entropy(scores, targets)",
    )
    found = report(tmp_path, program(step))
    assert any("log" in headline for headline in complaints(found).values()), complaints(found)


def test_an_assertion_on_the_device_is_looked_into_on_the_cpu(tmp_path: Path) -> None:
    found = report(tmp_path, program(PLAIN.replace("targets)", "targets + 1)")))
    headline = complaints(found)["entry-does-not-run"]
    assert "out of bounds" in headline
    assert any("device-side assert" in notice for notice in found.notices)
    assert not [rule for rule, result in told(found).items() if result.outcome is Outcome.ERROR]


def test_memory_that_is_not_there_is_the_programs_own_crash(tmp_path: Path) -> None:
    text = program(before="ballast = torch.empty(1 << 40, dtype=torch.float64, device=device)")
    (crash,) = (r for r in told(report(tmp_path, text)).values() if r.outcome in BAD)
    assert "out of memory" in crash.headline
    assert "train.py" in crash.traceback


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are enough GPUs for two ranks")
def test_ranks_that_need_a_gpu_each_are_not_blamed_for_there_being_one(tmp_path: Path) -> None:
    found = report(tmp_path, RANKS, "scale")
    assert complaints(found) == {}


def test_the_gpu_is_watched() -> None:
    layer = nn.Linear(4096, 4096, device="cuda")
    inputs = torch.randn(4096, 4096, device="cuda")
    with GpuWatch() as watch:
        for _ in range(400):
            layer(inputs)
            torch.cuda.synchronize()
    activity = watch.activity()
    assert activity.looks, activity
    assert activity.used > 0
    assert 0 < activity.memory < 1
