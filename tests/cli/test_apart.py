"""What a probe saw of a program overrules what was read in the files that it ran, and in no others."""

from pathlib import Path

import pytest

from mlcheck.checklist import Questions, run_checklist
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Item, Report, Result, report_from_dict
from mlcheck.lint.run import LintSettings
from mlcheck.probe.engine import ProbeOptions

RULE = "softmax-before-ce"
FAULTY = """\
import torch.nn.functional as F


def loss(model, x, y):
    return F.cross_entropy(F.softmax(model(x), dim=1), y)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checked(monkeypatch: pytest.MonkeyPatch, outcome: Outcome, *ran: str) -> Item:
    """The item of a rule that `outcome` is what a probe says of, where these files ran."""
    seen = Result(RULE, "Logits", Stage.TRAINING, Severity.ERROR, By.PROBE, outcome, "seen")
    monkeypatch.setattr("mlcheck.checklist.run_probes", lambda *_: Report("probe", "x", (seen,), ran=ran))
    report = run_checklist((".",), LintSettings(), ProbeOptions("x"), Questions(Path("signoff.toml")))
    saved = report_from_dict(report.to_dict())
    assert saved.ran == ran
    return next(item for item in saved.items() if item.decided.rule == RULE)


def paths(item: Item) -> list[str]:
    return [finding.location.path for finding in item.decided.findings]


def test_a_pass_overrules_what_was_read_in_files_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text(FAULTY)
    item = checked(monkeypatch, Outcome.PASS, "train.py")
    assert (item.outcome, item.decided.by) == (Outcome.PASS, By.PROBE)
    assert item.overruled[0].outcome is Outcome.FAIL


def test_a_pass_says_nothing_of_a_file_that_did_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text(FAULTY)
    Path("evaluate.py").write_text(FAULTY)
    item = checked(monkeypatch, Outcome.PASS, "train.py")
    assert (item.outcome, item.decided.by, paths(item)) == (Outcome.FAIL, By.LINT, ["evaluate.py"])
    assert item.overruled[0].outcome is Outcome.PASS


def test_nor_does_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("evaluate.py").write_text(FAULTY)
    item = checked(monkeypatch, Outcome.WARN, "train.py")
    assert (item.outcome, item.decided.by) == (Outcome.FAIL, By.LINT)


def test_what_was_seen_leads_where_both_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("evaluate.py").write_text(FAULTY)
    item = checked(monkeypatch, Outcome.FAIL, "train.py")
    assert (item.decided.by, [other.by for other in item.overruled]) == (By.PROBE, [By.LINT])


def test_a_program_of_which_nothing_is_known_to_have_run_overrules_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text(FAULTY)
    assert checked(monkeypatch, Outcome.PASS).outcome is Outcome.PASS


def test_a_link_is_the_file_that_it_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("code").mkdir()
    Path("code/train.py").write_text(FAULTY)
    Path("linked").symlink_to("code")
    assert checked(monkeypatch, Outcome.PASS, "linked/train.py").outcome is Outcome.PASS
