"""A running service by its address: by our own connections, and from Locust's users."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.load.cases import run_golden
from mlcheck.load.golden import read_golden
from mlcheck.load.http_service import Connection, HTTPError, encoded, of_url
from mlcheck.load.limits import Latencies, Latency, Limits, Plan
from mlcheck.load.locust_engine import Fleet, LocustFailed, read_samples, run_phase
from mlcheck.load.options import LoadOptions
from mlcheck.load.percentiles import percentile
from mlcheck.load.queries import Query
from mlcheck.load.run import run_load
from mlcheck.load.service import NoService

QUERIES = [Query({"x": number}, f"n{number}", f"q:{number}", {}) for number in range(5)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("server") / "port", "json_server.py") as url:
        yield url


@contextmanager
def served(port: Path, program: str, *arguments: str) -> Iterator[str]:
    server = subprocess.Popen([sys.executable, str(Path(__file__).parent / program), str(port), *arguments])
    until = time.monotonic() + 60
    while not (port.exists() and port.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port.read_text()}/predict"
    server.kill()
    server.wait()


def test_a_query_is_posted_and_its_answer_parsed(address: str) -> None:
    connection = Connection(address)
    assert connection.ask(encoded({"x": 3})) == {"label": 1}
    with pytest.raises(HTTPError, match="422") as refused:
        connection.ask(encoded({"x": "three"}))
    assert refused.value.status == 422
    assert connection.ask(encoded({"x": 4})) == {"label": 0}
    connection.close()
    assert connection.ask(encoded({"x": 5})) == {"label": 1}
    connection.close()


def test_bytes_go_as_they_are() -> None:
    assert encoded(b"\x89PNG") == b"\x89PNG"
    assert json.loads(encoded({"text": "é"})) == {"text": "é"}


@pytest.mark.parametrize("url", ["ftp://host/x", "http://", "localhost:80"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(NoService, match="is no address of a service"):
        of_url(url)


@pytest.mark.slow
def test_a_running_service_gets_the_same_report(address: str, tmp_path: Path) -> None:
    queries, golden = tmp_path / "q.jsonl", tmp_path / "g.jsonl"
    queries.write_text("\n".join(json.dumps({"input": query.input}) for query in QUERIES), encoding="utf-8")
    golden.write_text('{"input": {"x": "a"}, "raises": "422"}\n{"input": {"x": 1}, "expect": 1, "compare": "label"}\n')
    limits = Limits(load=Plan(workers=(1, 2), duration_s=0.7), latency=Latencies(random=Latency(p50_ms=5000)))
    report = run_load(LoadOptions(address, str(queries), golden=str(golden), limits=limits))
    found = {result.rule: result for result in report.results}
    for rule in ("golden-case-fails", "bad-query-breaks-service", "query-fails", "latency-over-limit"):
        assert found[rule].outcome is Outcome.PASS, found[rule]
    assert found["memory-over-limit"].outcome is Outcome.SKIP
    assert found["serves-in-training-mode"].outcome is Outcome.SKIP


def test_a_case_that_names_an_error_of_python_is_told_the_status(address: str, tmp_path: Path) -> None:
    golden = tmp_path / "g.jsonl"
    golden.write_text('{"input": {"x": "a"}, "raises": "ValueError"}\n')
    (case,) = run_golden(address, golden, read_golden(golden), 10.0, ".", lambda *_: None).cases
    assert case.told.endswith('expected ValueError; over HTTP a case names the status: "raises": "422"')


def test_nobody_is_at_home(tmp_path: Path) -> None:
    queries = tmp_path / "q.jsonl"
    queries.write_text('{"input": 1}', encoding="utf-8")
    report = run_load(LoadOptions("http://127.0.0.1:9/x", str(queries)))
    found = {result.rule: result for result in report.results}["service-does-not-start"]
    assert found.outcome is Outcome.FAIL
    assert "ConnectionRefusedError" in found.findings[0].message


def test_users_are_as_many_as_queries_fall_due_in_the_longest_stall() -> None:
    assert Fleet(longest_stall_s=1.0).users(100) == 131
    assert Fleet(longest_stall_s=0.25, processes=4).users(100) == 44
    assert Fleet(expected=3).users(0.5) == 6


def test_samples_of_all_nodes_are_joined(tmp_path: Path) -> None:
    rows = [array("q", [n, 10 * n, 10 * n, 10 * n + 1, 10 * n + 5, 1]) for n in (2, 0, 1)]
    errors = [{"error": "HTTPError: 500", "query": 2, "count": 4, "traceback": ""}]
    lines = [{"rows": row.tobytes().hex(), "errors": []} for row in rows] + [{"rows": "", "errors": errors}]
    (tmp_path / "s").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    samples, told = read_samples(tmp_path / "s")
    assert samples.query.tolist() == [0, 1, 2]
    assert samples.latency_ms.tolist() == [5e-6] * 3
    assert told == tuple(errors)
    with pytest.raises(LocustFailed, match=r"no samples: it said so$"):
        read_samples(tmp_path / "none", "first\nit said so\n")
    log = "[2026-11-21 20:45:17,557] host/ERROR/locust.main: Gave up waiting\n----\n"
    with pytest.raises(LocustFailed, match=r"no samples: Gave up waiting$"):
        read_samples(tmp_path / "none", log)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("locust") is None, reason="the extra `http` is not installed")
@pytest.mark.parametrize("processes", [1, 2])
def test_locust_sends_what_was_planned(address: str, tmp_path: Path, processes: int) -> None:
    plan, fleet = Plan(rate_qps=50, duration_s=2), Fleet(processes=processes)
    phase = run_phase(address, QUERIES, "random", 50, plan, 0, fleet, tmp_path)
    assert phase.planned is not None
    assert len(phase.samples) == len(phase.planned[0])
    assert sorted(phase.samples.due.tolist()) == phase.planned[0].tolist()
    assert phase.failed == len(phase.unanswered) == 0
    assert np.all(phase.samples.start >= phase.samples.due)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("locust") is None, reason="the extra `http` is not installed")
def test_a_service_that_stands_still_is_charged_for_every_query_that_was_due(tmp_path: Path) -> None:
    """Theory for the very arrivals: each that falls due in the stall waits for its end. p99 may be 3 % above it."""
    plan, stall_ms = Plan(rate_qps=200, duration_s=4), 600.0
    with served(tmp_path / "port", "stalling_server.py", "1.5", str(stall_ms / 1e3)) as url:
        samples = run_phase(url, QUERIES, "random", 200, plan, 0, Fleet(), tmp_path).samples
    struck = int(np.argmax(samples.service_ms))
    due, ends = samples.due / 1e6, samples.start[struck] / 1e6 + stall_ms
    theory = percentile(np.sort(np.where((due >= due[struck]) & (due < ends), ends - due, 0)), 0.99)
    late = float(((samples.start - samples.due)[samples.free < samples.due] / 1e6).max())
    assert 0.999 * theory <= percentile(np.sort(samples.latency_ms), 0.99) <= 1.03 * theory + late
    assert np.median(samples.latency_ms) < theory / 10
