"""Kills every command at random moments and looks whether what was there before is whole.

python tests/kill_commands.py --rounds 20 [--seed 0] [--only sign]

A project with a report, sign-offs, a baseline and a cache is made once. Each round copies it, starts a command, kills
it and all it started after a random part of the time it takes undisturbed, and reads every file again: each must be as
it was or as the command leaves it, and the same command must then come to the same end as if nothing had happened.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAM = """\
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    labels = (inputs.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    data = torch.utils.data.TensorDataset(inputs, labels)
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": torch.utils.data.DataLoader(data, batch_size=16, shuffle=True),
    }


def forgetful(loader, model, optimizer):
    for inputs, labels in loader:
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def predict(query):
    return {"answer": query["number"] * 2}
"""
SETTINGS = '[project]\nname = "killed"\nversion = "1"\n\n[tool.mlcheck]\nentry = "program.py:build"\n'
FILES = ["--queries", "q.jsonl", "--golden", "golden.jsonl"]
FEW = ["--only", "entry-does-not-run,batch-not-reviewed"]
COMMANDS: dict[str, list[str]] = {
    "lint": ["lint", ".", "--format", "json", "--output", "found.json"],
    "baseline": ["lint", ".", "--write-baseline"],
    "probe": ["probe", *FEW, "--json", "mlcheck-report.json", "--html", "mlcheck-report.html"],
    "check": ["check", *FEW],
    "report": ["report", "mlcheck-report.json", "--html", "mlcheck-report.html"],
    "compare": ["compare", "mlcheck-report.json", "mlcheck-report.json"],
    "sign": ["sign", "baseline-unknown", "--note", "again", "--by", "Eve", "--files", "program.py"],
    "waive": ["waive", "missing-zero-grad", "--reason", "again", "--by", "Eve"],
    "init": ["init", "--yes"],
    "load": [
        "load",
        "program:predict",
        *FILES,
        "--quick",
        "--workers",
        "1",
        "--duration",
        "0.5",
        "--json",
        "mlcheck-report.json",
    ],
}


def made(folder: Path, first: tuple[str, ...] = ("baseline", "check")) -> None:
    """The project as the kills find it, after these commands."""
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "q.jsonl").write_text("".join(f'{{"input": {{"number": {number}}}}}\n' for number in range(20)))
    (folder / "golden.jsonl").write_text('{"id": "twice", "input": {"number": 1}, "expect": {"answer": 2}}\n')
    for command in first:
        done = run(folder, COMMANDS[command])
        assert done.returncode in (0, 1), done.stderr
    for command in ("sign", "waive"):
        again = [word.replace("again", "first").replace("Eve", "Ada") for word in COMMANDS[command]]
        assert run(folder, again).returncode == 0


def run(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(started(command), cwd=folder, capture_output=True, text=True, env=_environment(), check=False)


def started(command: list[str]) -> list[str]:
    return [sys.executable, "-m", "mlcheck", *command]


def _environment() -> dict[str, str]:
    home = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": home, "OMP_NUM_THREADS": "1"}


def killed(folder: Path, command: list[str], seconds: float) -> None:
    """Start the command and kill it without a chance to tidy up."""
    process = subprocess.Popen(
        started(command),
        cwd=folder,
        env=_environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


READ: dict[str, Callable[[str], object]] = {
    ".json": json.loads,
    ".toml": tomllib.loads,
    ".html": lambda text: text.index("</html>"),
    ".py": lambda text: text.index(PROGRAM),
}


def broken(folder: Path, before: Path) -> list[str]:
    """What is gone or no longer whole of the files that were there before."""
    told = []
    for path in sorted(before.rglob("*")):
        if not path.is_file():
            continue
        now = folder / path.relative_to(before)
        try:
            text = now.read_text(encoding="utf-8")
            if path.parent.name != ".mlcheck_cache" and path.suffix in READ:
                READ[path.suffix](text)
        except (OSError, ValueError) as error:
            told.append(f"{path.relative_to(before)}: {type(error).__name__} {error}")
    return told


def round_of(name: str, project: Path, folder: Path, seconds: float) -> list[str]:
    """One kill of one command; what is wrong afterwards."""
    shutil.copytree(project, folder)
    if name == "init":
        (folder / "pyproject.toml").write_text(SETTINGS.partition("\n[tool")[0] + "\n")
    killed(folder, COMMANDS[name], seconds)
    told = broken(folder, project)
    signed = tomllib.loads((folder / "signoff.toml").read_text())
    if (
        signed["sign"]["baseline-unknown"]["note"] not in ("first", "again")
        or "missing-zero-grad" not in signed["waive"]
    ):
        told.append(f"signoff.toml: {signed}")
    if name == "init" and "mlcheck" in tomllib.loads((folder / "pyproject.toml").read_text()).get("tool", {}):
        return told  # it was done, and would refuse to do it again
    done = run(folder, COMMANDS[name])
    return told if done.returncode in (0, 1) else [*told, f"afterwards: {done.returncode} {done.stderr}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=COMMANDS, action="append")
    arguments = parser.parse_args()
    chance, failures = random.Random(arguments.seed), 0
    with TemporaryDirectory(prefix="mlcheck-kill-") as place:
        project = Path(place, "project")
        made(project)
        for name in arguments.only or COMMANDS:
            begun = time.monotonic()
            whole = round_of(name, project, Path(place, f"{name}-whole"), 600)
            length = (time.monotonic() - begun) / 2
            told = [f"undisturbed: {fault}" for fault in whole]
            for number in range(arguments.rounds):
                after = chance.uniform(0, length)
                wrong = round_of(name, project, Path(place, f"{name}-{number}"), after)
                told += [f"killed after {after:.2f} s: {fault}" for fault in wrong]
            failures += len(told)
            end = "; ".join(told) or "everything is whole"
            print(f"{name:<9} {arguments.rounds} kills within {length:.1f} s: {end}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
