"""What the cache of `mlcheck lint` saves: `python tests/benchmarks/lint_cache.py [FOLDER...]`.

Whole processes over a copy of each folder, start-up included, three kinds in turn: cold (no cache yet), warm (nothing
changed), and after one file was changed, which is a different one each time. Medians, and their ratios to cold.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from mlcheck.lint.discover import discover

LINT = [sys.executable, "-m", "mlcheck", "lint", "--format", "concise", "--cache-dir", ".cache", "code"]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Time mlcheck lint without a cache, with one, and after an edit.")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="default: parts of the installed torch")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    torch = Path(sysconfig.get_paths()["purelib"]) / "torch"
    print(f"{'what':28} {'files':>6} {'cold s':>8} {'warm s':>8} {'edit s':>8} {'warm/cold':>10} {'edit/cold':>10}")
    for folder in arguments.folders or [str(torch / "nn"), str(torch / "optim")]:
        with tempfile.TemporaryDirectory() as scratch:
            print(measured(folder, Path(scratch), arguments.repetitions))


def measured(folder: str, scratch: Path, repetitions: int) -> str:
    """One row: each repetition is a cold run, a warm one, and one after a comment was added to some file."""
    shutil.copytree(folder, scratch / "code", ignore=shutil.ignore_patterns(".git"))
    files = [scratch / file.path for file in discover([str(scratch / "code")]).files]
    chance = random.Random(0)
    cold, warm, edited = [], [], []
    for _ in range(repetitions):
        shutil.rmtree(scratch / ".cache", ignore_errors=True)
        cold.append(seconds(scratch))
        warm.append(seconds(scratch))
        with chance.choice(files).open("ab") as file:
            file.write(b"\n# one more comment\n")
        edited.append(seconds(scratch))
    first, second, third = (statistics.median(taken) for taken in (cold, warm, edited))
    return (
        f"{folder[-28:]:28} {len(files):6} {first:8.2f} {second:8.2f} {third:8.2f} "
        f"{second / first:10.3f} {third / first:10.3f}"
    )


def seconds(scratch: Path) -> float:
    """The processor time of one run, children and start-up included: what else the machine does costs none."""
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(LINT, cwd=scratch, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"exit code {done.returncode} after {time.perf_counter() - started:.1f} s: {done.stderr.decode()}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
