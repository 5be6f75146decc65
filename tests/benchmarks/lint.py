"""How long `mlcheck lint` takes beside others: `python tests/benchmarks/lint.py [FOLDER...] [--tools VENV]`.

Whole processes, start-up included, take turns within one run, so that what else the machine does meets all alike.
Folders: against a process that parses the same files with `ast.parse`, against `ruff check` and against flake8 with
TorchFix where the virtual environment VENV (default: this one) has them; without a cache, with a full one, and after
one file was changed; with two processes against one. One file of 5 KB, `--version` and `--help`: against
`python -c pass`. `--profile FOLDER` says instead where the time of one run goes. Processor seconds, medians; compare
the ratios, not the seconds, between machines. Waiting time says something on an idle machine only.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mlcheck.lint.files.discover import discover

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "lint" / "fixtures" / "validation-in-the-middle-of-an-epoch" / "train.py"
PASS = [sys.executable, "-c", "pass"]
MLCHECK = [sys.executable, "-m", "mlcheck"]
LINT = [*MLCHECK, "lint", "--format", "concise"]
RUFF = ["-m", "ruff", "check", "--no-cache", "--isolated", "--quiet", "--select", "F,E,B,NPY,PERF"]
TORCHFIX = ["-m", "flake8", "--isolated", "-j1", "--select", "TOR"]
PARSE = (
    "import ast, sys\n"
    "for path in open(sys.argv[1], encoding='utf-8').read().split('\\0'):\n"
    "    try:\n"
    "        ast.parse(open(path, 'rb').read())\n"
    "    except (SyntaxError, ValueError):\n"
    "        pass\n"
)
MOST_SECONDS = 1.5  # of a library to ast.parse; of scripts, where starting up counts, twice
SMALL = 1_000_000


class Run(NamedTuple):
    """One process: its processor seconds, its largest memory in MB, and how long somebody waited for it."""

    seconds: float
    memory: float
    wall: float


class Row(NamedTuple):
    """What was compared with what: medians in seconds, their ratio, and the ratio that is wanted."""

    what: str
    base: float
    mine: float
    goal: float

    def __str__(self) -> str:
        ratio = self.mine / self.base
        met = "" if not self.goal else "yes" if ratio <= self.goal else "no"
        wanted = f"{self.goal:8.3f}" if self.goal else " " * 8
        return f"  {self.what:44} {self.base:9.3f} {self.mine:9.3f} {ratio:9.3f} {wanted} {met}".rstrip()


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description="Time mlcheck lint beside ast.parse, ruff and flake8 with TorchFix.")
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="default: parts of the installed torch, and mlcheck"
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tools", metavar="VENV", default=sys.prefix, help="where ruff and flake8 are installed")
    parser.add_argument("--profile", metavar="FOLDER", help="profile one run over this folder, and measure nothing")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has been compiled
    if arguments.profile:
        profile(arguments.profile)
        return
    print(f"{'':46} {'base s':>9} {'lint s':>9} {'ratio':>9} {'goal':>8} met")
    with tempfile.TemporaryDirectory() as scratch:
        show("starting", starting(Path(scratch), arguments.repetitions * 3))
    paces = []
    for folder in arguments.folders or default_folders():
        with tempfile.TemporaryDirectory() as scratch:
            paces += whole_folder(Path(folder), Path(scratch), arguments.repetitions, Path(arguments.tools))
    if len(paces) > 1:
        spread = max(paces) / min(paces)
        print(f"seconds per MB, of folders above 1 MB: {min(paces):.2f} to {max(paces):.2f}, {spread:.1f}x (goal 1.5)")


def profile(folder: str) -> None:
    """Where the time of one run goes: the functions of the linter that take most of it themselves."""
    command = ["-m", "cProfile", "-s", "tottime", "-m", "mlcheck", "lint", "--no-cache", "--format", "concise", folder]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    table = done.stdout[done.stdout.index("function calls") :].splitlines()
    print("\n".join(table[:45]))


def default_folders() -> list[str]:
    torch = Path(sysconfig.get_paths()["purelib"]) / "torch"
    parts = [torch / "nn", torch / "optim", torch / "distributed" / "fsdp", ROOT / "mlcheck"]
    return [str(part) for part in parts if part.is_dir()]


def show(title: str, rows: Iterator[Row]) -> None:
    print(title)
    for row in rows:
        print(row, flush=True)


def starting(scratch: Path, repetitions: int) -> Iterator[Row]:
    """What does almost nothing, against an interpreter that does nothing."""
    text = PROGRAM.read_text("utf-8")
    script = scratch / "train.py"
    script.write_text(text + "\n\n" + text.replace("train_model", "train_again"), encoding="utf-8")
    words = {"--version": 3.0, "--help": 3.0, f"lint --no-cache {script}": 4.0}
    base, *others = in_turn([PASS, *([*MLCHECK, *word.split()] for word in words)], repetitions)
    for (word, goal), other in zip(words.items(), others, strict=True):
        what = "one file of 5 KB" if word.startswith("lint") else word
        yield Row(f"{what}, against python -c pass", median(base), median(other), goal)


def whole_folder(folder: Path, scratch: Path, repetitions: int, tools: Path) -> list[float]:
    """Print the table of one folder; return the seconds a MB took where there is more than one."""
    shutil.copytree(folder, scratch / "code", ignore=shutil.ignore_patterns(".git"), symlinks=True)
    files = [Path(file.path) for file in discover([str(scratch / "code")]).files]
    sizes = [file.stat().st_size for file in files]
    (scratch / "names").write_text("\0".join(map(str, files)), encoding="utf-8")
    cold = [*LINT, "--no-cache", "--jobs", "1", "code"]
    shared = [*LINT, "--no-cache", "--jobs", "2", "code"]
    rivals = {"ast.parse": ([sys.executable, "-c", PARSE, "names"], MOST_SECONDS if sum(sizes) > SMALL else 2.0)}
    python = tools / "bin" / "python"
    for name, command, modules in (("ruff", RUFF, "ruff"), ("flake8 + TorchFix", TORCHFIX, "flake8, torchfix")):
        if python.exists() and not subprocess.run([python, "-c", f"import {modules}"], capture_output=True).returncode:
            rivals[name] = ([str(python), *command, "code"], 1 / 40 if name.startswith("flake8") else 0.0)
    *others, mine, two = in_turn([*(command for command, _ in rivals.values()), cold, shared], repetitions, scratch)
    warm, changed = with_cache(files, scratch, repetitions)
    seconds = median(mine)
    rows = [
        Row(f"against {name}", median(other), seconds, goal)
        for (name, (_, goal)), other in zip(rivals.items(), others, strict=True)
    ]
    waited = [statistics.median(run.wall for run in runs) for runs in (mine, two)]
    rows += [Row("two processes against one: processor seconds", seconds, median(two), 0.0)]
    rows += [Row("two processes against one: waiting time", *waited, 0.65 if sum(sizes) > 5 * SMALL else 0.0)]
    rows += [Row("nothing changed, against no cache", seconds, median(warm), 0.03)]
    rows += [Row("one file changed, against no cache", seconds, median(changed), 0.05)]
    show(f"{folder}: {len(files)} files, {sum(sizes) / 1e6:.2f} MB", iter(rows))
    memory = max(run.memory for run in mine)
    print(f"  largest memory {memory:.0f} MB (goal {48 + 250 * max(sizes) / 1e6:.0f}), warm {max(warm).memory:.0f} MB")
    return [seconds / sum(sizes) * 1e6] if sum(sizes) > SMALL else []


def with_cache(files: list[Path], scratch: Path, repetitions: int) -> tuple[list[Run], list[Run]]:
    """Runs with a full cache, and runs after a statement was added to some file, a different one each time."""
    command = [*LINT, "--cache-dir", ".cache", "--jobs", "1", "code"]
    run(command, scratch)
    chance = random.Random(0)
    warm, changed = [], []
    for _ in range(repetitions):
        warm.append(run(command, scratch))
        with chance.choice(files).open("ab") as file:
            file.write(b"\nadded = 1\n")
        changed.append(run(command, scratch))
    return warm, changed


def in_turn(commands: list[list[str]], repetitions: int, folder: Path | None = None) -> list[list[Run]]:
    """All runs of each command, one command after the other in turn; the first round is not counted."""
    runs: list[list[Run]] = [[] for _ in commands]
    for repetition in range(repetitions + 1):
        for command, taken in zip(commands, runs, strict=True):
            done = run(command, folder)
            if repetition:
                taken.append(done)
    return runs


def run(command: list[str], folder: Path | None = None) -> Run:
    """Run a process to its end; what it and the processes it started took."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)[:200]}: exit code {process.returncode}")
    return Run(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, time.perf_counter() - started)


def median(runs: list[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


if __name__ == "__main__":
    main()
