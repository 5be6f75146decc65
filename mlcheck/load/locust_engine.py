"""Open-loop load on a running service with Locust, on this machine or, by its master and workers, on several."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import mlcheck
from mlcheck.core.cores import usable_cores
from mlcheck.core.mistake import Mistake
from mlcheck.core.plural import plural
from mlcheck.load.arrivals import arrivals
from mlcheck.load.http_service import encoded
from mlcheck.load.ladder import RANDOM, Phase, Rung
from mlcheck.load.limits import Plan
from mlcheck.load.queries import Query
from mlcheck.load.records import FIELDS, Samples
from mlcheck.load.wording import number

PLAN = "MLCHECK_LOCUST_PLAN"
_SPAWN_S = 30.0
_MOST = 300
_AGAIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """How Locust runs. `processes` of this machine's, or `expected` workers that join the master at `bind`.

    `longest_stall_s` is the longest time the service may stand still without the harness falling behind.
    """

    processes: int = 1
    expected: int = 0
    bind: str = "*:5557"
    longest_stall_s: float = 1.0

    def users(self, rate: float) -> int:
        """One for every query that falls due while the service stands still, three deviations more than the mean
        of random arrivals: fewer would send late."""
        due = rate * self.longest_stall_s
        return math.ceil(due + 3 * math.sqrt(due)) + max(1, self.processes, self.expected)


class LocustFailed(Exception):
    """Locust ended without samples; the message holds its last words."""


def require_locust() -> None:
    if find_spec("locust") is None:
        raise Mistake("--locust needs Locust: pip install 'mlcheck[http]'")


def run_phase(
    url: str, queries: list[Query], name: str, rate: float, plan: Plan, seed: int, fleet: Fleet, folder: Path
) -> Phase:
    """One phase of Poisson arrivals at `rate`, from the users that the plan's rate takes.

    Raises LocustFailed where Locust does not deliver.
    """
    each_once = name != RANDOM
    delivered = folder / f"{name}.samples"
    seconds, users = plan.duration_s, fleet.users(plan.rate_qps)
    told = {
        "bodies": [encoded(query.input).decode("utf-8", errors="surrogateescape") for query in queries],
        "rate": rate,
        "seconds": seconds,
        "seed": seed,
        "each_once": each_once,
        "samples": str(delivered),
    }
    (folder / f"{name}.plan").write_text(json.dumps(told), encoding="utf-8")
    wait = max(2.0, 2 * fleet.longest_stall_s)
    said = _run(url, folder / f"{name}.plan", users, seconds + wait, fleet)
    samples, errors = read_samples(delivered, said)
    offsets, numbers = arrivals(rate, seconds, len(queries), seed, each_once)
    until = int((seconds + wait) * 1e9)
    return Phase(
        users, 0, "open", name, rate, 0, until, usable_cores(), samples, planned=(offsets, numbers), errors=errors
    )


def climb_with_locust(
    url: str,
    sets: dict[str, list[Query]],
    plan: Plan,
    seed: int,
    fleet: Fleet,
    show: Callable[[str], None],
) -> tuple[Rung, str]:
    """One rung: random queries at the planned rate, complex ones at half of it; and what was sent of the plan.

    Raises LocustFailed where nothing was measured.
    """
    phases, users, failed = [], fleet.users(plan.rate_qps), ""
    for name, queries in sets.items():
        rate = plan.rate_qps if name == RANDOM else plan.rate_qps / 2
        show(f"Locust: {rate:g} {name} queries a second from {plural(users, 'user')}")
        with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder:
            try:
                phases.append(run_phase(url, queries, name, rate, plan, seed, fleet, Path(folder)))
            except LocustFailed as failure:
                if not phases:
                    raise
                failed = f"; {name} queries were not measured: {failure}"
    first = phases[0]
    assert first.planned is not None
    busy = int((first.samples.free > first.samples.due).sum())
    told = (
        f"Locust with {plural(users, 'user')} sent {len(first.samples):,} of "
        f"{plural(len(first.planned[0]), 'planned random query')}; "
        f"{busy:,} were due while every user was busy, and their latency counts from then all the same; Locust itself "
        f"was late by {number(first.usual_lateness_ms)} ms at the median, which is in every latency{failed}"
    )
    return Rung(users, 0, (), tuple(phases), ()), told


def _run(url: str, plan: Path, users: int, seconds: float, fleet: Fleet) -> str:
    """Run Locust to its end and return what it said."""
    home = str(Path(mlcheck.__file__).resolve().parent.parent)
    command = [sys.executable, "-m", "locust", "-f", str(Path(__file__).parent / "locustfile.py"), "--headless"]
    command += ["--host", url, "--users", str(users), "--spawn-rate", str(users)]
    command += [
        "--run-time",
        f"{math.ceil(seconds + 1)}s",
        "--stop-timeout",
        "1",
        "--only-summary",
        "--exit-code-on-error",
        "0",
    ]
    if fleet.expected:
        host, _, port = fleet.bind.rpartition(":")
        command += ["--master", "--master-bind-host", host or "*", "--master-bind-port", port]
        command += ["--expect-workers", str(fleet.expected), "--expect-workers-max-wait", "120"]
    elif fleet.processes > 1:
        command += ["--processes", str(fleet.processes)]
    paths = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, PLAN: str(plan), "PYTHONPATH": paths}
    process = subprocess.Popen(  # noqa: S603 - a fixed program, and an address that was checked
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=seconds + _SPAWN_S + (150 if fleet.expected else 0))
        return said
    except subprocess.TimeoutExpired as error:
        raise LocustFailed("Locust did not end in time") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def read_samples(path: Path, said: str = "") -> tuple[Samples, tuple[dict[str, Any], ...]]:
    """Samples and errors of all workers. Raises LocustFailed for none, with the end of what Locust `said`."""
    if not path.exists():
        raise LocustFailed(f"Locust delivered no samples: {_last_words(said)}")
    rows, errors = b"", []
    for line in path.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        rows += bytes.fromhex(data["rows"])
        errors += data["errors"]
    table = np.frombuffer(rows, dtype=np.int64).reshape(-1, FIELDS)
    table = table[np.argsort(table[:, 3], kind="stable")]
    columns = [np.ascontiguousarray(table[:, column]) for column in range(FIELDS)]
    return Samples(np.zeros(len(table), dtype=np.int64), *columns), tuple(errors)


def _last_words(said: str) -> str:
    """The last error that Locust logged, or else its last line, without the time and the place of the log."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["nothing was said"]
    errors = [line for line in lines if "/ERROR/" in line or "/CRITICAL/" in line]
    return re.sub(r"^\[[^]]*\] \S+: ", "", (errors or lines)[-1])[:_MOST]


def join_master(url: str, master: str) -> int:
    """Be a worker of a master elsewhere, for each kind of queries anew, until it is done; returns an exit code."""
    host, _, port = master.rpartition(":")
    if not (host and port.isdigit()):
        raise Mistake(f"--locust-join {master}: write it as HOST:PORT")
    home = str(Path(mlcheck.__file__).resolve().parent.parent)
    command = [sys.executable, "-m", "locust", "-f", str(Path(__file__).parent / "locustfile.py"), "--worker"]
    command += ["--host", url, "--master-host", host, "--master-port", port]
    paths = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))
    while True:
        code = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode  # noqa: S603
        if code or not _comes_back(host, int(port)):
            return code


def _comes_back(host: str, port: int) -> bool:
    """Whether the master listens again soon: it ends and begins anew between two kinds of queries."""
    until = time.monotonic() + _AGAIN_S
    while time.monotonic() < until:
        try:
            socket.create_connection((host, port), timeout=1.0).close()
            return True
        except OSError:
            time.sleep(0.5)
    return False
