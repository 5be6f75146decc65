"""What `mlcheck load` measures beside LoadGen and Locust alone: `python tests/benchmarks/load.py [--seconds 10]`.

The same function by mlcheck and by MLPerf LoadGen, one query after the other and at random arrivals; the same HTTP
service by Locust as its users run it and by mlcheck over Locust, when it is calm and when it stands still once.
Needs the extras `http` and `peers`. Milliseconds; runs alternate, and each figure is the median over repetitions.
`late` is what the harness itself began too late, on a machine that others use too: mlcheck counts it, Locust does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mlcheck.load.climb import Climb
from mlcheck.load.crew import Crew
from mlcheck.load.ladder import RANDOM, Phase
from mlcheck.load.limits import Plan
from mlcheck.load.locust_engine import Fleet, run_phase
from mlcheck.load.percentiles import percentile
from mlcheck.load.queries import Query
from mlcheck.load.self_test import self_test
from mlcheck.load.worker_process import Job

HERE = Path(__file__).resolve().parent
SERVER = HERE.parent / "load" / "stalling_server.py"
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
QUERIES = [Query({"x": number}, str(number), "", {}) for number in range(64)]
FUNCTION_RATE, SERVICE_RATE = 500.0, 100.0

Figures = dict[str, float]


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description="Compare mlcheck load with LoadGen and Locust alone.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    seconds, repetitions = arguments.seconds, arguments.repetitions

    print("the harness itself")
    for trait in self_test(lambda _: None):
        print(f"  {'holds' if trait.kept else 'FAILS'}: {trait.told}")

    one_by_one: dict[str, list[Figures]] = {"mlcheck, closed loop": [], "LoadGen, SingleStream": []}
    at_random: dict[str, list[Figures]] = {"mlcheck, open loop": [], "LoadGen, Server": []}
    for seed in range(repetitions):
        closed, opened = function_by_mlcheck(seconds, seed)
        one_by_one["mlcheck, closed loop"].append(closed)
        at_random["mlcheck, open loop"].append(opened)
        one_by_one["LoadGen, SingleStream"].append(function_by_loadgen("SingleStream", seconds))
        at_random["LoadGen, Server"].append(function_by_loadgen("Server", seconds))
    show("one function, one query after the other", one_by_one)
    show(f"the same function, {FUNCTION_RATE:g} queries a second at random", at_random)

    for told, stall_s in (("calm", 0.0), ("that stands still for a tenth of the run", seconds / 10)):
        ways = over_http(seconds, stall_s)
        found: dict[str, list[Figures]] = {name: [] for name in ways}
        for _ in range(repetitions):
            for name, run in ways.items():
                with served(0.4 * seconds, stall_s) as url:
                    found[name].append(run(url))
        show(f"an HTTP service {told}, {SERVICE_RATE:g} queries a second", found)


def show(title: str, found: dict[str, list[Figures]]) -> None:
    print(f"\n{title}")
    names = list(dict.fromkeys(name for runs in found.values() for name in runs[0]))
    print(f"  {'':38}" + "".join(f"{name:>12}" for name in names))
    for way, runs in found.items():
        cells = [statistics.median(run[name] for run in runs) if name in runs[0] else None for name in names]
        print(f"  {way:38}" + "".join(f"{'':>12}" if cell is None else f"{cell:12.4g}" for cell in cells))


def function_by_mlcheck(seconds: float, seed: int) -> tuple[Figures, Figures]:
    plan = Plan(workers=(1,), rate_qps=FUNCTION_RATE, duration_s=seconds)
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "queries.jsonl"
        queries.write_text("\n".join(json.dumps({"input": query.input}) for query in QUERIES), encoding="utf-8")
        job = Job(f"{HERE / 'loadgen_alone.py'}:answer", {RANDOM: str(queries)}, seed)
        with Crew(job, Path(folder)) as crew:
            climb = Climb(crew, plan, {RANDOM: len(QUERIES)}, seed)
            climb.rung(1)
    closed, opened = (climb.rungs[0].phase(kind, RANDOM) for kind in ("closed", "open"))
    assert closed is not None
    assert opened is not None
    return figures(closed.answered.service_ms) | {"queries/s": closed.throughput}, of_phase(opened)


def function_by_loadgen(scenario: str, seconds: float) -> Figures:
    command = [sys.executable, str(HERE / "loadgen_alone.py"), scenario, str(FUNCTION_RATE), str(seconds)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return {name: told[name] for name in SHARES} | {"queries/s": told["qps"]}


def over_http(seconds: float, stall_s: float) -> dict[str, Callable[[str], Figures]]:
    few, many = 4, int(SERVICE_RATE)
    return {
        "mlcheck over Locust": lambda url: by_mlcheck(url, seconds, stall_s),
        f"Locust alone, {few} users": lambda url: by_locust(url, seconds, few),
        f"Locust alone, {many} users": lambda url: by_locust(url, seconds, many),
    }


def by_mlcheck(url: str, seconds: float, stall_s: float) -> Figures:
    """With the p99 that theory has for the very arrivals: a query that falls due in the stall waits for its end."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(rate_qps=SERVICE_RATE, duration_s=seconds)
        phase = run_phase(url, QUERIES, RANDOM, SERVICE_RATE, plan, 0, Fleet(), Path(folder))
    found = of_phase(phase)
    if stall_s:
        struck, due = int(np.argmax(phase.samples.service_ms)), phase.samples.due / 1e6
        ends = phase.samples.start[struck] / 1e6 + 1e3 * stall_s
        waits = np.where((due >= due[struck]) & (due < ends), ends - due, 0)
        found["theory p99"] = percentile(np.sort(waits), 0.99)
    return found


def by_locust(url: str, seconds: float, users: int) -> Figures:
    """Locust's own statistics, from what it counts in each bucket."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "locust", "-f", str(HERE / "locust_alone.py"), "--headless", "--host", url]
        command += ["--users", str(users), "--spawn-rate", str(users), "--run-time", f"{seconds:g}s"]
        command += ["--json-file", str(Path(folder) / "told"), "--exit-code-on-error", "0"]
        pace = os.environ | {"PACE": str(SERVICE_RATE / users)}
        subprocess.run(command, check=True, capture_output=True, env=pace)
        (told,) = json.loads(next(Path(folder).glob("told*")).read_text(encoding="utf-8"))
    buckets = sorted((float(ms), count) for ms, count in told["response_times"].items())
    times = np.repeat([ms for ms, _ in buckets], [count for _, count in buckets])
    return figures(times) | {"sent": len(times), "planned": SERVICE_RATE * seconds}


def of_phase(phase: Phase) -> Figures:
    assert phase.planned is not None
    counted = {"sent": float(len(phase.samples)), "planned": float(len(phase.planned[0]))}
    return figures(phase.latencies_ms) | counted | {"late p50": phase.usual_lateness_ms}


def figures(times: np.ndarray) -> Figures:
    ordered = np.sort(times)
    return {name: percentile(ordered, share) for name, share in SHARES.items()}


@contextmanager
def served(after_s: float, stall_s: float) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder) / "port"
        server = subprocess.Popen([sys.executable, str(SERVER), str(port), str(after_s), str(stall_s)])
        while not (port.exists() and port.read_text()):
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port.read_text()}/predict"
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
