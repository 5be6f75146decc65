"""A GPU that stops with an assertion takes its process along: the rest is examined on the CPU, which names the line."""

from __future__ import annotations

from pathlib import Path

from mlcheck.core.outcome import Outcome
from mlcheck.probe.engine import ProbeOptions, run_probes

# Acts as CUDA does: the call that fails says little, and every later one fails as it did.
PROGRAM = """
import os
import torch
import torch.nn.functional as F
from torch import nn

WITH_GPU = os.environ.get("CUDA_VISIBLE_DEVICES") != "-1"
torch.manual_seed(0)
inputs, labels = torch.randn(64, 4), torch.arange(64) % 4
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=16, shuffle=True)


def stopped(*_):
    raise RuntimeError("CUDA error: device-side assert triggered\\nfor debugging consider CUDA_LAUNCH_BLOCKING=1")


for epoch in range(2):
    for batch, classes in loader:
        if WITH_GPU:
            torch.cuda.is_initialized, torch.cuda.synchronize = lambda: True, stopped
            stopped()
        optimizer.zero_grad()
        F.cross_entropy(model(batch), classes).backward()
        optimizer.step()
"""


def test_what_a_gpu_leaves_open_is_examined_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    report = run_probes(ProbeOptions("train.py", folder=str(tmp_path)))
    found = {item.decided.rule: item.decided for item in report.items()}
    assert found["entry-does-not-run"].outcome is Outcome.FAIL
    assert "Target 3 is out of bounds" in found["entry-does-not-run"].headline
    (place,) = {finding.location.line for finding in found["entry-does-not-run"].findings}
    assert PROGRAM.splitlines()[place - 1].strip().startswith("F.cross_entropy")
    assert not [result for result in found.values() if "device-side" in result.headline]
    assert any("the GPU stopped (RuntimeError: CUDA error: device-side assert triggered)" in n for n in report.notices)
    assert report.environment["device"] == "CPU"
