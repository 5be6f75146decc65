"""Whole runs in real processes: each fault ends in a complete report that names it, and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report, Result
from mlcheck.load.cases import Conduct, run_conduct, run_golden
from mlcheck.load.checks import answer_not_repeatable, bad_query_breaks_service, batch_changes_answer
from mlcheck.load.golden import read_golden
from mlcheck.load.limits import Cases, Latencies, Latency, Limits, Plan
from mlcheck.load.options import LoadOptions
from mlcheck.load.run import run_load

SERVICES = Path(__file__).parent / "load_services.py"
BRIEF = Limits(load=Plan(workers=(1,), duration_s=0.7, query_timeout_s=1.0))


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    lines = [json.dumps({"id": f"n{x}", "input": {"x": x}, "label": x % 2, "live": 0}) for x in range(10)]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "queries.jsonl"


def run(name: str, queries: Path, limits: Limits = BRIEF, **files: str) -> dict[str, Result]:
    found = run_load(LoadOptions(f"{SERVICES}:{name}", str(queries), limits=limits, **files))  # type: ignore[arg-type]
    assert workers_left() == []
    return by_rule(found)


def by_rule(report: Report) -> dict[str, Result]:
    return {result.rule: result for result in report.results}


def workers_left() -> list[int]:
    """Processes of mlcheck's that this one started."""
    return [
        child.pid
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and "mlcheck.load" in " ".join(child.cmdline())
    ]


@pytest.mark.slow
def test_a_sound_service_gets_its_whole_report(queries: Path, tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(
        '{"id": "odd", "input": {"x": 3}, "expect": 1, "compare": "label"}\n'
        '{"id": "nothing", "input": {}, "raises": "ValueError"}\n',
        encoding="utf-8",
    )
    plan = Plan(workers=(1, 2), duration_s=0.7)
    limits = Limits(load=plan, latency=Latencies(random=Latency(p50_ms=5000), complex=Latency(p50_ms=5000)))
    found = run("sound", queries, limits, golden=str(golden), labelled=str(queries))
    passed = {rule for rule, result in found.items() if result.outcome is Outcome.PASS}
    assert passed >= {
        "service-does-not-start", "golden-case-fails", "answer-not-repeatable", "bad-query-breaks-service",
        "answer-not-finite", "query-fails", "latency-over-limit", "worst-case-latency-over-limit", "worse-than-live",
    }  # fmt: skip
    assert not [rule for rule, result in found.items() if result.outcome in (Outcome.FAIL, Outcome.ERROR)]
    assert found["quality-below-limit"].summary.startswith("accuracy 100.00%")
    assert found["latency-over-limit"].summary.count("worker") == 2
    assert found["memory-over-limit"].numbers["MB at 2"] > found["memory-over-limit"].numbers["MB at 1"] > 5


@pytest.mark.slow
def test_what_was_measured_is_kept_after_every_phase(queries: Path) -> None:
    """One after the service was tried, one after each query alone, then one after each phase and number of workers."""
    kept: list[dict[str, Result]] = []
    limits = Limits(load=Plan(workers=(1, 2), duration_s=0.3))
    options = LoadOptions(f"{SERVICES}:answers_at_once", str(queries), limits=limits)
    run_load(options, keep=lambda report: kept.append(by_rule(report)))
    assert len(kept) == 2 + 2 * (4 + 1)
    assert kept[0]["answer-not-repeatable"].outcome is Outcome.PASS
    assert kept[0]["answer-not-finite"].outcome is kept[1]["query-fails"].outcome is Outcome.SKIP
    asked = [one["query-fails"].looked_at for one in kept[1:]]
    assert asked == sorted(asked)
    assert len(set(asked)) == 1 + 2 * 4
    assert kept[3]["latency-over-limit"].summary.startswith("1 worker at ")


@pytest.mark.slow
def test_a_leak_of_a_megabyte_in_a_hundred_queries(queries: Path) -> None:
    limits = Limits(load=Plan(workers=(1,), duration_s=2.5))
    found = run("leaks", queries, limits)["memory-grows"]
    assert found.outcome is Outcome.WARN
    assert "grows by 10" in found.findings[0].message


@pytest.mark.slow
def test_a_worker_killed_in_mid_run(queries: Path) -> None:
    found = run("killed", queries)["query-fails"]
    assert found.outcome is Outcome.FAIL
    assert "was ended by SIGKILL while it answered query 'n" in found.findings[0].message


@pytest.mark.slow
def test_an_error_in_each_hundred_queries(queries: Path) -> None:
    found = run("raises_often", queries)["query-fails"]
    assert found.outcome is Outcome.FAIL
    assert "raised RuntimeError: no room for query 100 (query 'n" in found.findings[0].message
    assert "in raises_often" in found.traceback
    assert found.numbers["failed"] == pytest.approx(found.numbers["asked"] / 100, rel=0.2)


@pytest.mark.slow
def test_a_query_that_hangs(queries: Path) -> None:
    found = run("hangs_on_seven", queries)
    assert found["query-fails"].outcome is Outcome.FAIL
    assert (
        "had no answer after 1 s and was stopped while it answered query 'n7'"
        in found["query-fails"].findings[0].message
    )
    assert "in hangs_on_seven" in found["query-fails"].traceback
    assert found["answer-not-repeatable"].outcome is Outcome.FAIL


@pytest.mark.slow
def test_an_answer_that_is_no_number(queries: Path) -> None:
    found = run("not_a_number_for_seven", queries)["answer-not-finite"]
    assert [finding.message for finding in found.findings] == ["query 'n7': answer.score is NaN or infinite"]


def conducted(name: str, queries: Path, repeatable: bool = True) -> Conduct:
    return run_conduct(f"{SERVICES}:{name}", queries, Cases(repeatable), 1.0, ".")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_takes_its_workers_along(number: int, queries: Path) -> None:
    before = signal.getsignal(number)

    def show(*_: object) -> None:
        if workers_left():
            os.kill(os.getpid(), number)

    with pytest.raises(SystemExit) as ended:
        run_load(LoadOptions(f"{SERVICES}:sound", str(queries), limits=BRIEF), show)
    assert ended.value.code == 128 + number
    assert workers_left() == []
    assert signal.getsignal(number) is before


def test_a_service_that_leaves_over_a_broken_query(queries: Path) -> None:
    found = bad_query_breaks_service.check(conducted("leaves_on_nothing", queries))
    assert found.outcome is Outcome.FAIL
    assert found.findings[0].message.startswith("a query with nothing (null): the process exited with code 4")
    assert [finding.message[:28] for finding in found.findings[1:]] == ["a query with an empty object"]


def test_answers_that_change(queries: Path) -> None:
    assert answer_not_repeatable.check(conducted("counts", queries)).outcome is Outcome.FAIL
    sampled = conducted("counts", queries, repeatable=False)
    assert answer_not_repeatable.check(sampled).outcome is Outcome.SKIP
    assert bad_query_breaks_service.check(sampled).outcome is Outcome.PASS


def test_a_query_without_a_name_is_called_by_its_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.jsonl").write_text('{"input": {"x": 1}}\n{"input": {"x": 2}}\n', encoding="utf-8")
    repeated = conducted("counts", Path("plain.jsonl")).repeated
    assert [case.name for case in repeated] == ["plain.jsonl:1", "plain.jsonl:2"]


def test_a_golden_case_that_hangs_is_stopped_and_named(queries: Path, tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text('{"id": "seven", "input": {"x": 7}, "expect": 1}\n', encoding="utf-8")
    entry = f"{SERVICES}:hangs_on_seven"
    (case,) = run_golden(entry, golden, read_golden(golden), 1.0, ".", lambda *_: None).cases
    assert case.told == "nothing was heard from the process for 1 s, so it was stopped"
    assert "in hangs_on_seven" in case.traceback


def test_fields_that_may_change_and_answers_that_change_of_themselves(queries: Path) -> None:
    timed = conducted("tells_its_time", queries)
    assert answer_not_repeatable.check(timed).outcome is Outcome.FAIL
    assert bad_query_breaks_service.check(timed).outcome is Outcome.PASS
    cases = Cases(ignore=("took_ms",))
    aside = run_conduct(f"{SERVICES}:tells_its_time", queries, cases, 1.0, ".")
    assert answer_not_repeatable.check(aside).outcome is Outcome.PASS


def test_a_broken_query_that_spoils_the_next_answer(queries: Path) -> None:
    found = bad_query_breaks_service.check(conducted("spoilt_by_text", queries))
    assert found.findings[0].message == (
        "a query with a wrong type: the next query got another answer: answer is 1, expected 0"
    )


def test_batches_that_mix_or_lose_queries(queries: Path) -> None:
    mixed = batch_changes_answer.check(conducted("Batches", queries))
    assert [finding.message for finding in mixed.findings] == ["'n1' in a batch: answer is 3.0, expected 2.0"]
    uneven = batch_changes_answer.check(conducted("Uneven", queries))
    assert "8 queries got 1 answer" in uneven.findings[0].message


@pytest.mark.parametrize(
    ("name", "told"),
    [("Broken", "FileNotFoundError: weights.pt"), ("leaves_at_once", "the process exited with code 3")],
)
def test_a_service_that_does_not_start(name: str, told: str, queries: Path) -> None:
    found = run(name, queries)
    assert found["service-does-not-start"].outcome is Outcome.FAIL
    assert told in found["service-does-not-start"].findings[0].message
    others = {
        result.outcome for rule, result in found.items() if rule not in {"service-does-not-start", "query-unreadable"}
    }
    assert others == {Outcome.SKIP}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("load_services", "names no service: write `module:predict`"),
        ("load_servises.py:sound", "there is no file load_servises.py; did you mean `load_services.py`"),
        (f"{SERVICES}:soud", "there is no `soud` in"),
        (f"{SERVICES}:NoPredict", "without a method `predict`"),
        (f"{SERVICES}:two_arguments", "needs text, length: a predict function takes one query"),
        (f"{SERVICES}:waits", "is async"),
        (f"{SERVICES}:NUMBER", "is an object of type int without a method `predict`"),
        ("no_such_package.serve:predict", "no_such_package"),
        ("weights.pt", "there is no file weights.pt"),
    ],
)
def test_an_entry_point_that_is_none(entry: str, told: str, queries: Path) -> None:
    folder = str(SERVICES.parent)
    with pytest.raises(Mistake) as raised:
        run_load(LoadOptions(entry, str(queries), limits=BRIEF, folder=folder))
    assert told in str(raised.value)
    assert workers_left() == []


@pytest.mark.slow
def test_a_broken_line_among_twenty_thousand(tmp_path: Path) -> None:
    """The report is whole, and names the line."""
    lines = ['{"input": 1}'] * 20_000
    lines[12_344] = "{"
    (tmp_path / "q.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = run("answers_at_once", tmp_path / "q.jsonl")
    assert found["query-unreadable"].outcome is Outcome.FAIL
    (finding,) = found["query-unreadable"].findings
    assert finding.message.startswith(f"{tmp_path}/q.jsonl:12345: not JSON: ")
    assert found["query-fails"].outcome is Outcome.PASS
    assert found["latency-over-limit"].summary


def test_broken_must_pass_cases_are_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text('{"input": 1, "expect": 1}\n{\n', encoding="utf-8")
    with pytest.raises(Mistake, match=r"g\.jsonl:2: not JSON"):
        run_load(LoadOptions("nothing:runs", golden=str(tmp_path / "g.jsonl")))


def test_what_an_interruption_left_out_is_undecided(monkeypatch: pytest.MonkeyPatch, queries: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mlcheck.load.run.run_conduct", interrupted)
    report = run_load(LoadOptions(f"{SERVICES}:sound", queries=str(queries)))
    found = {result.rule: (result.outcome, result.reason) for result in report.results}
    assert found["latency-over-limit"] == (Outcome.INCONCLUSIVE, "interrupted before it was measured")
    assert found["golden-case-fails"] == (Outcome.SKIP, "no must-pass cases are given: --golden")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_what_it_has_and_nobody_behind(number: int, queries: Path, tmp_path: Path) -> None:
    """Ctrl-C prints what was measured; after a kill the saved report has it, and no worker lives on."""
    saved = tmp_path / "report.json"
    command = [sys.executable, "-m", "mlcheck", "load", f"{SERVICES}:sound", "--queries", str(queries)]
    options = ["--workers", "1,2,4,8", "--duration", "1", "--json", str(saved)]
    mark = {**os.environ, "MLCHECK_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen(command + options, stdout=subprocess.PIPE, text=True, env=mark, cwd=tmp_path)
    until = time.monotonic() + 120
    while not (saved.exists() and "answered: " in saved.read_text(encoding="utf-8")) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    report = json.loads(saved.read_text(encoding="utf-8"))
    told = {result["rule"]: result["summary"] for result in report["results"]}
    assert "answered: " in told["throughput-does-not-scale"]
    told_so = any("until then" in notice or "not finished" in notice for notice in report["notices"])
    assert told_so, (process.returncode, report["notices"], report["seconds"], printed)
    if number == signal.SIGINT:
        assert "this is what was measured until then" in printed
        assert process.returncode == 130
    while marked(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    assert marked(tmp_path) == []


def marked(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if process.environ().get("MLCHECK_TEST_MARK") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_the_live_version_answers_the_same_labelled_queries(queries: Path, tmp_path: Path) -> None:
    """`sound` is right on all ten, and `answers_at_once` (always 1) on the odd ones alone."""
    labelled = tmp_path / "labelled.jsonl"
    lines = [json.dumps({"id": f"n{x}", "input": {"x": x}, "label": x % 2}) for x in range(10)]
    labelled.write_text("\n".join(lines), encoding="utf-8")
    files = {"labelled": str(labelled), "only": ("worse-than-live",)}
    won = run("sound", queries, live=f"{SERVICES}:answers_at_once", **files)["worse-than-live"]
    assert "on 10 queries: 5 gained, 0 lost (McNemar's p = 0.0625)" in won.summary
    lost = run("answers_at_once", queries, live=f"{SERVICES}:sound", **files)["worse-than-live"]
    assert lost.outcome is Outcome.FAIL
    assert "the live model is right on 5 queries that this one gets wrong, and wrong on 0" in lost.findings[0].message
    absent = run("sound", queries, live=f"{SERVICES}:Broken", **files)["worse-than-live"]
    assert absent.outcome is Outcome.SKIP
    assert absent.reason == "the live version does not answer: loading raised FileNotFoundError: weights.pt"
