"""The statistics against those of statsmodels, and early stopping against runs of MLPerf LoadGen itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mlcheck.load.binomial import mcnemar, wilson
from mlcheck.load.percentiles import Decision, rule
from mlcheck.load.sbs import fleiss_kappa

NEAR = 1e-9

LOADGEN = """
import sys
import mlperf_loadgen as loadgen
queries, folder = int(sys.argv[1]), sys.argv[2]
settings = loadgen.TestSettings()
settings.scenario = loadgen.TestScenario.SingleStream
settings.mode = loadgen.TestMode.PerformanceOnly
settings.min_duration_ms, settings.min_query_count, settings.max_query_count = 1, queries, queries
def issue(samples):
    for sample in samples:
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample.id, 0, 0)])
service = loadgen.ConstructSUT(issue, lambda: None)
library = loadgen.ConstructQSL(8, 8, lambda _: None, lambda _: None)
logs = loadgen.LogSettings()
logs.log_output.outdir, logs.enable_trace = folder, False
loadgen.StartTestWithLogSettings(service, library, settings, logs)
"""


@pytest.mark.parametrize("queries", [64, 459, 662, 10_000])
def test_loadgen_stops_as_early(queries: int, tmp_path: Path) -> None:
    """What it would discard is one fewer than may exceed the limit, of the 90th percentile it estimates."""
    pytest.importorskip("mlperf_loadgen")
    subprocess.run([sys.executable, "-c", LOADGEN, str(queries), str(tmp_path)], check=True, capture_output=True)
    told = (tmp_path / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    asked = int(re.search(r"Processed at least \d+ queries \((\d+)\)", told)[1])  # type: ignore[index]
    discarded = int(re.search(r"Would discard (\d+) highest latency", told)[1])  # type: ignore[index]
    assert asked == queries
    assert rule(asked, discarded + 1, 0.9).decision is Decision.KEPT
    assert rule(asked, discarded + 2, 0.9).decision is Decision.OPEN


@pytest.mark.parametrize(("successes", "n"), [(0, 7), (3, 8), (60, 100), (4711, 5000)])
def test_wilson_is_that_of_statsmodels(successes: int, n: int) -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    found = wilson(successes, n)
    theirs = proportion.proportion_confint(successes, n, method="wilson")
    assert (found.low, found.high) == pytest.approx(theirs, abs=NEAR)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (0, 5), (10, 25), (300, 340)])
def test_mcnemar_is_that_of_statsmodels(gained: int, lost: int) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    theirs = tables.mcnemar([[50, gained], [lost, 15]], exact=True).pvalue if gained + lost else 1.0
    assert mcnemar(gained, lost) == pytest.approx(theirs, abs=NEAR)


def test_agreement_of_raters_is_that_of_statsmodels() -> None:
    rating = pytest.importorskip("statsmodels.stats.inter_rater")
    random = np.random.default_rng(1)
    choices = random.choice(["new", "live", "tie"], size=(40, 5), p=[0.5, 0.3, 0.2])
    counts, _ = rating.aggregate_raters(choices)
    assert fleiss_kappa([row.tolist() for row in choices]) == pytest.approx(rating.fleiss_kappa(counts), abs=NEAR)
