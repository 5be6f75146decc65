"""The example service, loaded with its own files as its page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.load.limits import Limits, Plan, read_limits
from mlcheck.load.options import LoadOptions
from mlcheck.load.run import run_load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digit_service"


@pytest.mark.slow
def test_the_example_passes_what_does_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    stated = read_limits(Path("slo.toml"))
    limits = Limits(load=Plan(workers=(1,), duration_s=0.5), quality=stated.quality, memory=stated.memory)
    files = {"queries": "random.jsonl", "golden": "golden.jsonl", "labelled": "labelled.jsonl"}
    report = run_load(LoadOptions("service:DigitService", limits=limits, **files))  # type: ignore[arg-type]
    found = {result.rule: result.outcome for result in report.results}
    expected = {
        "service-does-not-start", "golden-case-fails", "answer-not-repeatable", "batch-changes-answer",
        "bad-query-breaks-service", "serves-in-training-mode", "serves-with-gradients", "answer-not-finite",
        "query-fails", "quality-below-limit", "worse-than-live", "memory-over-limit",
    }  # fmt: skip
    assert {rule: found[rule] for rule in expected} == dict.fromkeys(expected, Outcome.PASS)
    assert not {Outcome.FAIL, Outcome.ERROR} & set(found.values())
