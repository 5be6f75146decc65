"""The table of removed and deprecated functions agrees with the PyTorch that is installed."""

from __future__ import annotations

import inspect
from functools import reduce
from pathlib import Path

import pytest
import torch

from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.lint.sites.api import TABLE, Row, version

INSTALLED = version(torch.__version__)


def named(row: Row) -> object:
    """The object of that name; None where there is none."""
    start: object = torch
    return reduce(lambda owner, part: getattr(owner, part, None), row.name.split(".")[1:], start)


@pytest.mark.parametrize("row", [row for row in TABLE if row.removed], ids=lambda row: f"{row.name}-{row.argument}")
def test_what_is_removed_is_not_there_or_says_so(row: Row) -> None:
    assert version(row.deprecated) <= version(row.removed)
    if version(row.removed) > INSTALLED:
        pytest.skip(f"still there in the installed torch: it was removed in {row.removed}")
    found = named(row)
    if row.argument:
        assert row.argument not in inspect.signature(found).parameters  # type: ignore[arg-type]
    else:
        assert found is None or "is now removed" in inspect.getsource(found)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", [row for row in TABLE if not row.removed], ids=lambda row: f"{row.name}-{row.argument}")
def test_what_is_deprecated_is_still_there(row: Row) -> None:
    assert version(row.deprecated) <= INSTALLED
    found = named(row)
    assert found is not None
    if row.argument:
        assert row.argument in inspect.signature(found).parameters  # type: ignore[arg-type]


def test_a_version_is_read_to_its_second_number() -> None:
    assert version("2.10.1+cpu") == (2, 10)
    assert version("1.13") < version("2.0") < version("2.6") < version("2.13")
    assert version("") == ()


OLD = """\
import torch


def work(path, x, optimizer):
    state = torch.load(path)
    scaler = torch.cuda.amp.GradScaler()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=True)
    return torch.symeig(x), state, scaler, schedule
"""


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", {("removed-api", 7), ("removed-api", 8), ("deprecated-api", 6)}),
        ("1.12", {("unsafe-load", 5), ("deprecated-api", 8)}),
        ("2.3", {("unsafe-load", 5), ("removed-api", 8), ("deprecated-api", 7)}),
        ("2.13", {("removed-api", 7), ("removed-api", 8), ("deprecated-api", 6)}),
    ],
)
def test_what_is_said_depends_on_the_version_that_is_meant(
    tmp_path: Path, target: str, expected: set[tuple[str, int]]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(OLD, encoding="utf-8")
    rules = ("removed-api", "deprecated-api", "unsafe-load")
    report = run_lint([str(program)], LintSettings(select=rules, target_torch=target))
    found = {(result.rule, finding.location.line) for result in report.results for finding in result.findings}
    assert found == expected


def test_a_pinned_version_keeps_rules_from_telling_and_gives_them_nothing_more_to_tell(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(OLD, encoding="utf-8")
    rules = ("removed-api", "deprecated-api", "unsafe-load")
    for pinned, expected in (("1.12", {("deprecated-api", 8)}), ("2.13", {("removed-api", 7), ("removed-api", 8)})):
        report = run_lint([str(program)], LintSettings(select=rules, pinned_torch=pinned))
        found = {(result.rule, finding.location.line) for result in report.results for finding in result.findings}
        assert found - {("deprecated-api", 6)} == expected
