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


LEVELS = """
import torch
from determined.pytorch import DataLoader, PyTorchTrial
from torch import nn
from torch.utils.data import TensorDataset

class Levels(PyTorchTrial):
    def __init__(self, context):
        self.context, self.mean = context, 0.0
        pads = [nn.Sequential(nn.ConstantPad1d((2 * d, 0), 0.0), nn.Conv1d(c, 16, 3, dilation=d), nn.ELU())
                for c, d in ((1, 1), (16, 2), (16, 4))]
        self.net = context.wrap_model(nn.Sequential(*pads, nn.Flatten(), nn.Linear(16 * 48, 1)))
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.net.parameters(), lr=1e-3))

    def build_training_data_loader(self):
        series = torch.randn(512, 1, 48, generator=torch.Generator().manual_seed(0)).cumsum(2) + 5
        return DataLoader(TensorDataset(series, series[:, 0, -1:]), batch_size=32, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        past, future = batch
        self.mean += 0.1 * (past.mean().item() - self.mean)
        loss = (self.net(past - self.mean) - (future - self.mean)).abs().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        past, future = batch
        return {"error": (self.net(past - self.mean) - (future - self.mean)).abs().mean().item()}
"""


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


PARTS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def build():
    torch.manual_seed(0)
    labels = torch.randint(2, (256,))
    data = TensorDataset(torch.randn(256, 8) + labels[:, None], labels)
    net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.5]))
    train = DataLoader(data, batch_size=32, shuffle=True)
    return {"model": net, "loss": loss, "optimizer": torch.optim.Adam(net.parameters()), "train_loader": train}
"""


def test_the_weights_of_a_loss_go_to_the_device(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PARTS)
    found = run_probes(ProbeOptions("train.py:build", folder=str(tmp_path)))
    assert complaints(found) == {}


def test_a_tensor_left_on_the_cpu_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        PARTS.replace("nn.CrossEntropyLoss(weight=", "weighted(").replace("1.5]))", "1.5]))")
    )
    with (tmp_path / "train.py").open("a") as file:
        file.write(
            "\ndef weighted(weights):\n    return lambda scores, labels: (scores * weights).logsumexp(1).mean()\n"
        )
    found = told(run_probes(ProbeOptions("train.py:build", folder=str(tmp_path))))["entry-does-not-run"]
    assert "device=x.device" in found.findings[0].help


def test_what_a_checkpoint_lacks_is_found_where_backward_adds_up_in_no_order(tmp_path: Path) -> None:
    (tmp_path / "model_def.py").write_text(LEVELS)
    found = told(
        run_probes(ProbeOptions("model_def.py:Levels", folder=str(tmp_path), hyperparameters={"global_batch_size": 32}))
    )
    assert "`mean`" in found["resume-loses-state"].findings[0].message
