"""What the pytest plugin costs a suite that does not use it: pairs of runs, with it and without it.

python tests/benchmarks/pytest_startup.py --pairs 20
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_one.py").write_text("def test_one():\n    pass\n")
        cost(folder, ())  # the first run compiles
        differences = [cost(folder, ()) - cost(folder, ("-p", "no:mlcheck")) for _ in range(pairs)]
    low, middle, high = statistics.quantiles(differences, n=4)
    print(f"the plugin costs {1e3 * middle:.1f} ms of processor time (quartiles {1e3 * low:.1f} to {1e3 * high:.1f})")


def cost(folder: str, options: tuple[str, ...]) -> float:
    """Seconds of processor time of one run of pytest."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, folder]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True)
    assert done.returncode == 0, done.stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
