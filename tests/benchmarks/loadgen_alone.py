"""MLPerf LoadGen on a Python function: `python loadgen_alone.py SCENARIO RATE SECONDS`, figures as JSON.

It is given what its documentation shows: a callback that answers at once for SingleStream, and a queue with one
thread that answers for Server.
"""

from __future__ import annotations

import json
import queue
import re
import sys
import tempfile
import threading
from pathlib import Path

import mlperf_loadgen as loadgen

QUERIES = 64


def answer(query: object) -> int:
    """Some 200 microseconds of arithmetic: the function that is measured."""
    return sum(range(20_000))


def main(scenario: str, rate: float, seconds: float) -> None:
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, scenario)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = settings.max_duration_ms = int(1000 * seconds)
    settings.min_query_count = 1
    settings.server_target_qps, settings.server_target_latency_ns = rate, 100_000_000
    settings.single_stream_expected_latency_ns = 200_000
    waiting: queue.SimpleQueue[loadgen.QuerySample] = queue.SimpleQueue()

    def complete(sample: loadgen.QuerySample) -> None:
        answer(sample.index)
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample.id, 0, 0)])

    def serve() -> None:
        while True:
            complete(waiting.get())

    def issue(samples: list[loadgen.QuerySample]) -> None:
        for sample in samples:
            waiting.put(sample) if scenario == "Server" else complete(sample)

    threading.Thread(target=serve, daemon=True).start()
    service = loadgen.ConstructSUT(issue, lambda: None)
    queries = loadgen.ConstructQSL(QUERIES, QUERIES, lambda _: None, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        logs = loadgen.LogSettings()
        logs.log_output.outdir, logs.enable_trace = folder, False
        loadgen.StartTestWithLogSettings(service, queries, settings, logs)
        told = (Path(folder) / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    found = {f"p{name[:2]}": float(ns) / 1e6 for name, ns in re.findall(r"([59]\d\.00) percentile.*: (\d+)", told)}
    rates = re.findall(r"(?:QPS w/o loadgen overhead|Completed samples per second) *: ([\d.]+)", told)
    print(json.dumps(found | {"qps": float(rates[0])}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
