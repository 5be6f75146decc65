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

IMPORT = """
import sys, time, pytest
begun = time.process_time()
import mlcheck.pytest_plugin
print(time.process_time() - begun)
assert not {"torch", "numpy"} & sys.modules.keys()
"""


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
    own = statistics.median(import_cost() for _ in range(pairs))
    print(f"its import alone takes {1e3 * own:.1f} ms, and brings along neither torch nor numpy")


def import_cost() -> float:
    """Seconds of processor time, in a process that has imported pytest. Noise is less where little else is measured."""
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    return float(done.stdout)


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
