"""What a run says of its surroundings: the packages it imports, how they are pinned, and the data it read."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

import pytest

from mlcheck.core.report import Report
from mlcheck.probe.engine import ProbeOptions, run_probes

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
from pathlib import Path

import helper
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        row = Path(f"rows_{index % 2}.txt").read_text().split()
        return torch.tensor([float(value) for value in row]), helper.label(index)


def build():
    model = nn.Linear(2, 2)
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(Rows(), batch_size=4, num_workers=WORKERS),
    }
"""


def probed(folder: Path, workers: int) -> Report:
    (folder / "program.py").write_text(PROGRAM.replace("WORKERS", str(workers)))
    (folder / "helper.py").write_text("import yaml\n\n\ndef label(index):\n    return index % 2\n")
    for number in range(2):
        (folder / f"rows_{number}.txt").write_text(f"{number} 1\n")
    options = ProbeOptions("program.py:build", only=("entry-does-not-run",), folder=str(folder))
    return run_probes(options)


# Python 3.14 forks no workers: what they read is not heard of.
@pytest.mark.parametrize("workers", [0, 1] if sys.version_info < (3, 14) else [0])
def test_packages_and_data_are_told(workers: int, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.0.0\n")
    told = probed(tmp_path, workers).environment
    assert told["packages"] == f"pyyaml {version('pyyaml')}, torch {version('torch')}"
    assert told["packages not pinned"] == "pyyaml"
    assert told["packages pinned otherwise"] == f"torch {version('torch')}, where requirements.txt says 1.0.0"
    assert {name for name in told if name.startswith(("file ", "folder "))} == {"file rows_0.txt", "file rows_1.txt"}


CHILD = """\
import json, os, sys
from pathlib import Path
from mlcheck.trial.reads import Reads
reads = Reads(Path("record"))
reads.begin()
open("read.csv").close()
open(b"read.csv").close()
os.close(os.open("low.bin", os.O_RDONLY))
open("updated.bin", "r+b").close()
open("written.csv", "w").close()
open("appended.csv", "a").close()
os.close(os.open("made.bin", os.O_WRONLY | os.O_CREAT))
open("module.py").close()
open("/proc/self/status").close()
with reads.unheard():
    open("ours.csv").close()
try:
    open("absent.csv")
except FileNotFoundError:
    pass
os.makedirs("below", exist_ok=True)
os.chdir("below")
if not os.fork():
    open("../forked.csv").close()
    os._exit(0)
os.wait()
os.chdir("..")
import json.tool, wave
print(json.dumps(reads.data((os.path.abspath("apart"),))))
"""


def test_only_what_is_read_and_is_data_is_noted(tmp_path: Path) -> None:
    for name in ("read.csv", "low.bin", "updated.bin", "module.py", "ours.csv", "forked.csv"):
        (tmp_path / name).touch()
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{dedent(CHILD)}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    noted = [Path(path).relative_to(tmp_path).as_posix() for path in json.loads(done.stdout)]
    assert noted == ["read.csv", "low.bin", "updated.bin", "absent.csv", "forked.csv"]
