"""A program that asks for a GPU by name, on a machine that has none: on the CPU with the shim, told off without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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
    "type": lambda: torch.ones(2).type(torch.cuda.FloatTensor),  # type: ignore[attr-defined]
    "legacy constructor": lambda: torch.cuda.FloatTensor([1.0]),  # type: ignore[attr-defined]
    "set_device": lambda: torch.cuda.set_device(0),
    "synchronize": torch.cuda.synchronize,
    "event": lambda: torch.cuda.Event(enable_timing=True).record(),
    "stream": lambda: torch.cuda.stream(torch.cuda.Stream()).__enter__(),
    "name": lambda: torch.cuda.get_device_name(0),
    "generator": lambda: torch.randn(2, generator=torch.Generator("cuda").manual_seed(1)),
    "generator by name": lambda: torch.Generator(device=torch.device("cuda", 0)),
    "within a device": lambda: made_within("cuda"),
    "stream of its own": lambda: torch.Stream("cuda"),
    "recorded stream": lambda: torch.ones(2).cuda().record_stream(torch.cuda.Stream()),
    "stream entered": lambda: torch.cuda.Stream().__enter__().wait_stream(torch.cuda.default_stream()),
    "pinned factory": lambda: torch.zeros(2, pin_memory=True),
    "properties": lambda: torch.cuda.get_device_properties(0).total_memory,
    "capability": lambda: torch.cuda.get_device_capability(),
    "memory": lambda: torch.cuda.mem_get_info(),
    "ranges": lambda: torch.cuda.nvtx.range_push("step"),
    "random state": lambda: torch.cuda.get_rng_state(),
    "random fork": lambda: torch.random.fork_rng(devices=[0]).__enter__(),
    "type by name": lambda: torch.ones(2).type("torch.cuda.FloatTensor"),
    "sparse": lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), device="cuda"),
    "frequencies": lambda: torch.fft.fftfreq(4, device="cuda"),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_is_asked_of_cuda_is_done_on_the_cpu(what: str, request: pytest.FixtureRequest) -> None:
    missed = None
    try:
        call(what)
    except (RuntimeError, AssertionError, TypeError, ValueError, AttributeError) as error:
        missed = advice(error)
    assert torch.version.cuda if missed is None else "--cpu-shim" in missed  # built with CUDA, torch lets some pass
    request.getfixturevalue("shim")
    found = call(what)
    tensors = found.parameters() if isinstance(found, nn.Module) else [found]
    assert all(tensor.device.type == "cpu" for tensor in tensors if isinstance(tensor, torch.Tensor))


def made_within(device: str) -> torch.Tensor:
    with torch.device(device):
        return nn.Linear(2, 2).weight


def test_what_is_without_effect_on_the_cpu_is_listed(shim: CpuShim) -> None:
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.Linear(2, 2)(torch.ones(1, 2)).sum()
    scaler.scale(loss).backward()
    loader = DataLoader(TensorDataset(torch.ones(4)), 2, pin_memory=True, pin_memory_device="cuda")
    assert len(list(loader)) == 2
    assert loss.dtype is torch.float32
    told = shim.told(str(Path(__file__).parent))
    for use in ('GradScaler("cuda"), off at', 'autocast("cuda"), off at', "DataLoader(pin_memory=True) at"):
        assert f"{use} test_cpu_shim.py:" in told


def test_mixed_precision_on_the_cpu_is_as_it_was(shim: CpuShim) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype is torch.bfloat16
    with torch.autocast("cuda", enabled=False):
        pass
    assert not shim.uses


def test_classes_that_stand_in_are_still_asked_what_is_one_of_them(shim: CpuShim) -> None:
    assert isinstance(torch.Generator("cuda"), torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert isinstance(torch.cuda.Event(), torch.cuda.Event)
    assert not isinstance(torch.ones(2), torch.cuda.Stream)


def test_a_model_made_without_memory_stays_so(shim: CpuShim) -> None:
    assert made_within("meta").is_meta
    assert not shim.uses


def call(what: str) -> object:
    return getattr(torch.cuda, "synchronize")() if what == "synchronize" else ASKED[what]()  # noqa: B009


def test_the_shim_is_taken_back() -> None:
    before = parts()
    shim = CpuShim()
    shim.install()
    assert parts() != before
    shim.remove()
    assert parts() == before
    assert made_within("meta").is_meta


def parts() -> list[object]:
    owners = (torch, torch.cuda, torch.Tensor, nn.Module, DataLoader, torch.autocast, torch.amp.GradScaler)
    return [value for owner in owners for value in vars(owner).values() if callable(value)]


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
        all(place in notice for place in (".cuda() at train.py:6 train.py:11", 'to("cuda") at train.py:11'))
        for notice in report.notices
    ), report.notices
