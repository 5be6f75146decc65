"""A script that resists: it ignores signals, starts processes, leaves its folder, writes home, exits with a code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from script_programs import HEAD

from mlcheck.core.outcome import Outcome
from mlcheck.probe.engine import ProbeOptions, run_probes

UNRULY = """\
import multiprocessing, os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "TOKEN"])
multiprocessing.set_start_method("fork")
os.system("touch made-by-a-program.txt")
with open(os.path.expanduser("~/note.txt"), "w") as note:
    note.write("x")
import torch
torch.set_num_interop_threads(1)
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
"""
LOOP = """
os.chdir("/")
sys.argv[:] = ["changed"]
train_loader = DataLoader(TensorDataset(x[:64], y[:64]), 16, shuffle=True, num_workers=1)
model = nn.parallel.DistributedDataParallel(model)
try:
    for epoch in range(20):
        model.train()
        for data, target in train_loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            for data, target in test_loader:
                model(data)
        torch.save(model.state_dict(), "/model.pt")
        if epoch == 15:
            sys.exit(3)
finally:
    open(os.path.join(os.environ["HOME"], "last.txt"), "w").close()
"""


@pytest.mark.slow
def test_it_gets_its_report_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = f"300.{uuid.uuid4().int % 10**9}"
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (folder / "train.py").write_text(UNRULY.replace("TOKEN", token) + HEAD + LOOP, encoding="utf-8")
    rules = ("missing-zero-grad", "missing-eval-mode", "train-not-restored")
    report = run_probes(ProbeOptions("train.py", only=rules, folder=str(folder), arguments=("--epochs", "3")))
    outcomes = {result.rule: result.outcome for result in report.results}
    assert outcomes["entry-does-not-run"] is Outcome.PASS, report.results
    assert outcomes["missing-zero-grad"] is Outcome.FAIL
    assert outcomes["missing-eval-mode"] is Outcome.PASS
    assert outcomes["train-not-restored"] is Outcome.PASS
    (folder / "made-by-a-program.txt").unlink()  # this cannot be led away, so it is told
    assert any("these files changed: made-by-a-program.txt (" in notice for notice in report.notices)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["train.py"]
    assert not Path("/model.pt").exists()
    assert any("note.txt" in notice and "model.pt" in notice for notice in report.notices)
    assert not running(token)


@pytest.mark.slow
def test_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    token = f"300.{uuid.uuid4().int % 10**9}"
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    for folder in (work, scratch, tmp_path / "home"):
        folder.mkdir()
    before = {
        "train.py": UNRULY.replace("TOKEN", token) + HEAD + LOOP,
        "mlcheck-report.json": "of yesterday",
        "mlcheck-report.html": "of yesterday",
        "pyproject.toml": '[tool.mlcheck]\nentry = "train.py"\n',
    }
    for name, text in before.items():
        (work / name).write_text(text, encoding="utf-8")
    home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "mlcheck", "check"],
        cwd=work,
        env={**os.environ, **home},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not running(token) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all in the foreground
    printed, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted while the program started" in " ".join(printed.split())
    assert "Traceback" not in printed + told
    assert not running(token)
    assert not running(str(scratch))
    assert not list(scratch.iterdir())
    assert not list((tmp_path / "home").iterdir())
    assert {name: (work / name).read_text(encoding="utf-8") for name in before} == before


def running(token: str) -> list[Path]:
    """Processes that have this in their command line or environment."""
    processes = Path("/proc").glob("[0-9]*")
    return [p for p in processes if token.encode() in _bytes(p / "cmdline") + _bytes(p / "environ")]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
