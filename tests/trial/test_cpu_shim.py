"""A program that asks for a GPU by name, on a machine that has none: on the CPU with the shim, told off without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.engine import ProbeOptions, run_probes
from mlcheck.trial.cpu_shim import CpuShim, advice

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def shim() -> Iterator[CpuShim]:
    shim = CpuShim()
    shim.install()
    yield shim
    shim.remove()


# Everything that public programs were seen to ask of CUDA, each of which fails without the shim.
ASKED = {
    "tensor": lambda: torch.ones(2).cuda(),
    "tensor to": lambda: torch.ones(2).to("cuda:0"),
    "tensor to a device": lambda: torch.ones(2).to(torch.device("cuda")),
    "tensor to by name": lambda: torch.ones(2).to(device="cuda", non_blocking=True),
    "module": lambda: nn.Linear(2, 2).cuda(),
    "module to": lambda: nn.Linear(2, 2).to("cuda", torch.float64),
    "module made there": lambda: nn.Linear(2, 2, device="cuda"),
    "factory": lambda: torch.zeros(2, 3, device="cuda"),
    "like": lambda: torch.zeros_like(torch.ones(2), device="cuda"),
    "new": lambda: torch.ones(2).new_zeros(3, device="cuda"),
    "pinned": lambda: torch.ones(2).pin_memory(),
    "type": lambda: torch.ones(2).type(torch.cuda.FloatTensor),
    "legacy constructor": lambda: torch.cuda.FloatTensor([1.0]),
    "set_device": lambda: torch.cuda.set_device(0),
    "synchronize": torch.cuda.synchronize,
    "event": lambda: torch.cuda.Event(enable_timing=True).record(),
    "stream": lambda: torch.cuda.stream(torch.cuda.Stream()).__enter__(),
    "name": lambda: torch.cuda.get_device_name(0),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_is_asked_of_cuda_is_done_on_the_cpu(what: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises((RuntimeError, AssertionError, TypeError, ValueError, AttributeError)) as caught:
        call(what)
    assert "--cpu-shim" in advice(caught.value) or what in {"type", "name", "stream"}
    request.getfixturevalue("shim")
    found = call(what)
    tensors = found.parameters() if isinstance(found, nn.Module) else [found]
    assert all(tensor.device.type == "cpu" for tensor in tensors if isinstance(tensor, torch.Tensor))


def call(what: str) -> object:
    return getattr(torch.cuda, "synchronize")() if what == "synchronize" else ASKED[what]()  # noqa: B009


def test_the_shim_is_taken_back() -> None:
    before = torch.Tensor.to, torch.Tensor.cuda, nn.Module.to, torch.zeros, torch.cuda.set_device
    shim = CpuShim()
    shim.install()
    assert torch.zeros is not before[3]
    shim.remove()
    assert (torch.Tensor.to, torch.Tensor.cuda, nn.Module.to, torch.zeros, torch.cuda.set_device) == before


def test_what_is_not_asked_of_cuda_is_as_it_was(shim: CpuShim) -> None:
    assert torch.ones(2).to(torch.float64).dtype is torch.float64
    assert torch.ones(2).to("cpu").device.type == "cpu"
    assert torch.zeros(2, device="meta").is_meta
    assert not torch.cuda.is_available()
    assert not shim.uses
    assert shim.told("/") == ""


SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(3, (32,))), 8, shuffle=True)
for epoch in range(20):
    for inputs, labels in loader:
        inputs, labels = inputs.to("cuda"), labels.cuda(non_blocking=True)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_a_script_that_asks_for_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    options = ProbeOptions("train.py", only=("missing-zero-grad",), folder=str(tmp_path))
    entry, rule = run_probes(options).results
    assert entry.outcome is Outcome.FAIL
    assert "--cpu-shim" in entry.findings[0].help
    assert rule.outcome is Outcome.SKIP
    report = run_probes(replace(options, cpu_shim=True))
    assert [result.outcome for result in report.results] == [Outcome.PASS, Outcome.PASS]
    assert any(
        all(place in notice for place in ("train.py:6 .cuda()", 'train.py:11 to("cuda")', "train.py:11 .cuda()"))
        for notice in report.notices
    ), report.notices
