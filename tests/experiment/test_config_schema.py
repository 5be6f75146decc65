"""The table of experiment configs: what upstream's shared cases say where they are at hand, and what they leave out."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from mlcheck.cli import main
from mlcheck.core.report import Report
from mlcheck.experiment.run import run_lint_and_configs
from mlcheck.lint.run import LintSettings

RULE = "invalid-experiment-config"
HEAD = "entrypoint: model_def:Trial\nhyperparameters: {lr: 0.1}\n"
SINGLE = "searcher: {name: single, metric: loss}\n"
ASHA = "searcher: {name: adaptive_asha, metric: loss, max_trials: 4, max_length: {batches: 10}}\n"
CODE = "class Trial:\n    pass\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def report(text: str, version: str = "") -> Report:
    Path("experiment.yaml").write_text(text, encoding="utf-8")
    return run_lint_and_configs(["experiment.yaml"], LintSettings(select=(RULE,), target_determined=version))


def told(text: str, version: str = "") -> list[str]:
    return [
        f"{one.location.line}:{one.location.column} {one.message}"
        for result in report(text, version).results
        for one in result.findings
    ]


def test_the_table_agrees_with_determined_own_cases() -> None:
    checkout = os.environ.get("DETERMINED_CHECKOUT", "")
    if not checkout:
        pytest.skip("DETERMINED_CHECKOUT names no checkout of determined-ai/determined")
    script = Path(__file__).parents[1] / "benchmarks" / "config_schema.py"
    every = list(runpy.run_path(str(script))["judged"](Path(checkout)))
    assert len(every) >= 171
    assert [one for one in every if not one.agrees] == []


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("resources:\n  slot_per_trial: 2\n", "5:3", "did you mean `slots_per_trial`?"),
        ("resources: {priority: 100}\n", "4:23", "must be from 1 to 99"),
        ("resources: {shm_size: 4 gigs}\n", "4:23", "must be a size like `4G`"),
        ("max_restarts: 1.5\n", "4:15", "must be a whole number, not `1.5`"),
        ("labels: fast\n", "4:9", "must be a list, not the text `fast`"),
        ("checkpoint_policy: bst\n", "4:20", "did you mean `best`?"),
        ("checkpoint_storage: {type: shared}\n", "4:28", "did you mean `shared_fs`?"),
        ("optimizations: {aggregation_frequency: 0}\n", "4:40", "must be 1 or more"),
        ("profiling: {begin_on_batch: 9, end_after_batch: 3}\n", "4:29", "must be at most `end_after_batch`"),
        ("environment: {image: [a]}\n", "4:22", "must be an image"),
        ("min_validation_period: {}\n", "4:24", "exactly one of `batches`, `records` and `epochs`"),
        ("bind_mounts: [{host_path: /a}]\n", "4:15", "has no `container_path`"),
        ("batches_per_step: 10\n", "4:1", "is not read any more"),
        ("\ndebug: yes\n", "5:8", "must be true or false, not the text `yes`"),
    ],
)
def test_a_problem_is_told_at_its_place(text: str, place: str, says: str) -> None:
    (line,) = told(HEAD + SINGLE + text)
    assert line.startswith(f"{place} ")
    assert says in line


@pytest.mark.parametrize(
    ("text", "version", "says"),
    [
        (SINGLE, "0.24", "`searcher` has no `max_length`"),
        (SINGLE, "0.38", ""),
        (SINGLE, "", ""),
        (ASHA, "0.24", ""),
        (ASHA, "", ""),
        (ASHA, "0.38", "`searcher` has no `time_metric`"),
        (ASHA.replace("max_length: {batches: 10}", "time_metric: batches, max_time: 10"), "", ""),
        (ASHA.replace("max_length: {batches: 10}", "time_metric: batches"), "", "`searcher` has no `max_time`"),
        (SINGLE + "environment: {image: {gpu: 'determinedai/x:gpu-0.24.0'}}\n", "", "`searcher` has no `max_length`"),
        (SINGLE + "environment: {image: 'ubuntu:22.04.1'}\n", "", ""),
        ("searcher: {name: custom, metric: loss}\n", "0.38", "of an earlier version"),
        ("searcher: {name: custom, metric: loss}\n", "0.24", ""),
    ],
)
def test_the_dialect_decides_what_a_searcher_needs(text: str, version: str, says: str) -> None:
    found = told(HEAD + text, version)
    assert bool(found) is bool(says)
    assert all(says in line for line in found)


def test_the_dialect_is_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    Path("experiment.yaml").write_text(HEAD + SINGLE, encoding="utf-8")
    assert main(["lint", "experiment.yaml"]) == 0
    assert main(["lint", "--target-determined", "0.24", "experiment.yaml"]) == 1
    Path("pyproject.toml").write_text('[tool.mlcheck]\ntarget-determined = "0.24"\n', encoding="utf-8")
    assert main(["lint", "experiment.yaml"]) == 1
    capsys.readouterr()
    assert main(["lint", "--target-determined", "0.25", "experiment.yaml"]) == 2
    assert "write 0.24 (until 0.37) or 0.38" in " ".join(capsys.readouterr().err.split())


def sparse(name: str, mib: int) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    with open(name, "wb") as file:
        file.truncate(mib * 2**20)


def test_a_code_folder_is_weighed_after_what_is_left_out() -> None:
    Path("model_def.py").write_text(CODE, encoding="utf-8")
    sparse("weights/last.pt", 90)
    assert told(HEAD + SINGLE) == []
    sparse("data.npz", 20)
    (line,) = told(HEAD + SINGLE)
    assert line.startswith("1:13 the code folder . has 110 MiB")
    assert "weights/last.pt (90 MiB), data.npz (20 MiB)" in line
    Path(".detignore").write_text("*.pt\n!kept.pt\n", encoding="utf-8")
    assert told(HEAD + SINGLE) == []
    sparse("kept.pt", 90)
    assert len(told(HEAD + SINGLE)) == 1
    Path(".detignore").write_text("weights/\n/data.npz\n", encoding="utf-8")
    sparse(".git/objects/pack", 200)
    assert told(HEAD + SINGLE) == []


def test_a_file_that_holds_itself_or_grows_without_end_is_told() -> None:
    (notice,) = report(HEAD + SINGLE + "data: &a {b: *a}\n").notices
    assert "holds itself" in notice
    layers = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))
    (notice,) = report(HEAD + SINGLE + f"data:\n  l0: &l0 [1]\n{layers}").notices
    assert "too large" in notice
