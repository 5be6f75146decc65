"""Experiment configs beside the code they start: which files are read, what is chosen, what is told of bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report
from mlcheck.experiment.run import RULES, run_lint_and_configs
from mlcheck.lint.files.discover import MissingPath
from mlcheck.lint.run import LintSettings

CONFIG = """\
entrypoint: model_def:Trial
hyperparameters:
  lr: 0.1
  lr: 0.2
searcher:
  name: single
  metric: accuracy
"""
CODE = """\
from determined.pytorch import PyTorchTrial

class Trial(PyTorchTrial):
    def __init__(self, context):
        self.lr = context.get_hparam("lr")
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    write_file("experiment.yaml", CONFIG)
    write_file("model_def.py", CODE)
    return write_file


def found(report: Report) -> list[str]:
    return [f"{one.location} {result.rule}" for result in report.results for one in result.findings]


def test_a_folder_is_read_code_and_config(write: Write) -> None:
    report = run_lint_and_configs(["."], LintSettings())
    assert found(report) == [
        "experiment.yaml:4:3 duplicate-config-key",
        "experiment.yaml:7:11 metric-direction-reversed",
    ]
    assert "missing-zero-grad" in {result.rule for result in report.results}
    assert report.environment["files linted"] == "2"  # the config is one of them


def test_a_config_by_name(write: Write) -> None:
    report = run_lint_and_configs(["experiment.yaml"], LintSettings())
    assert len(found(report)) == 2
    assert {result.rule for result in report.results} == {r for r in RULES if "grid" not in r}
    assert run_lint_and_configs(["model_def.py"], LintSettings()).items()


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        (LintSettings(select=("duplicate-config-key",)), {"duplicate-config-key"}),
        (LintSettings(select=("missing-zero-grad",)), {"missing-zero-grad"}),
        (LintSettings(select=("missing-zero-grad", "entrypoint-missing")), {"missing-zero-grad", "entrypoint-missing"}),
    ],
)
def test_rules_are_chosen_by_name(write: Write, settings: LintSettings, rules: set[str]) -> None:
    assert {result.rule for result in run_lint_and_configs(["."], settings).results} == rules


def test_a_config_that_does_not_exist_is_a_mistake(write: Write) -> None:
    with pytest.raises(MissingPath, match=r"nope\.yaml: no such file"):
        run_lint_and_configs(["nope.yaml"], LintSettings())


def test_rules_are_left_out(write: Write) -> None:
    ignoring = LintSettings(
        ignore=("duplicate-config-key",), per_file_ignores={"*.yaml": ("metric-direction-reversed",)}
    )
    assert found(run_lint_and_configs(["."], ignoring)) == []
    answered = CONFIG.replace("lr: 0.2", "lr: 0.2  # mlcheck: ignore[duplicate-config-key] on purpose")
    write("experiment.yaml", answered.replace("accuracy", "accuracy  # mlcheck: ignore[entrypoint-missing]"))
    assert found(run_lint_and_configs(["."], LintSettings())) == ["experiment.yaml:7:11 metric-direction-reversed"]


def test_what_is_no_experiment_is_not_read(write: Write) -> None:
    write(".github/workflow.yaml", CONFIG)
    write("compose.yaml", "services: {a: 1, a: 2}\n")
    write("ignored/experiment.yaml", CONFIG)
    write(".gitignore", "ignored/\n")
    report = run_lint_and_configs(["."], LintSettings())
    assert {line.split(":")[0] for line in found(report)} == {"experiment.yaml"}


def test_a_config_that_is_no_yaml_is_told(write: Write) -> None:
    write("experiment.yaml", CONFIG + "  bad: [1, 2\n")
    report = run_lint_and_configs(["."], LintSettings())
    told = ["experiment.yaml:9:1 invalid-experiment-config"]
    assert found(report) == found(run_lint_and_configs(["experiment.yaml"], LintSettings())) == told
    write("experiment.yaml", "{% if big %}\n" + CONFIG)
    templated = run_lint_and_configs(["."], LintSettings())
    assert any("experiment.yaml:1: not valid YAML" in notice for notice in templated.notices)
    assert found(templated) == []
    write("experiment.yaml", "- entrypoint: model_def:Trial\n")
    (notice,) = run_lint_and_configs(["experiment.yaml"], LintSettings()).notices
    assert "a mapping" in notice


def test_without_a_config_nothing_is_said(write: Write) -> None:
    Path("experiment.yaml").unlink()
    assert not {result.rule for result in run_lint_and_configs(["."], LintSettings()).results} & set(RULES)


@pytest.mark.parametrize("code", ["", "class Trial(", "\0", "from model_def import Trial\n"])
def test_code_that_cannot_be_read_silences_the_rules_about_it(write: Write, code: str) -> None:
    write("model_def.py", code)
    report = run_lint_and_configs(["experiment.yaml"], LintSettings())
    assert all(result.outcome is not Outcome.ERROR for result in report.results)
    assert {line.split()[-1] for line in found(report)} <= {
        "duplicate-config-key",
        "entrypoint-missing",
        "metric-direction-reversed",
    }


@pytest.mark.parametrize("absurd", ["1" * 400, "0x" + "f" * 400, "0x" + "f" * 5000, "1e999", ".inf", ".nan"])
def test_numbers_that_are_too_large_for_a_float_break_nothing(absurd: str, write: Write) -> None:
    length = f"max_length: {{batches: {absurd}}}"
    write("experiment.yaml", CONFIG + f"  {length}\n")
    write("hex.yaml", CONFIG.replace("lr: 0.2", f"global_batch_size: {absurd}\nresources: {{slots_per_trial: 2}}"))
    report = run_lint_and_configs(["."], LintSettings())
    assert not [result for result in report.results if result.outcome is Outcome.ERROR]


def test_a_config_without_an_entrypoint_is_judged_all_the_same(write: Write) -> None:
    write("experiment.yaml", CONFIG.partition("\n")[2] + "  max_trails: 3\n")
    assert found(run_lint_and_configs(["."], LintSettings())) == [
        "experiment.yaml:3:3 duplicate-config-key",
        "experiment.yaml:7:3 invalid-experiment-config",
        "experiment.yaml:6:11 metric-direction-reversed",
    ]
