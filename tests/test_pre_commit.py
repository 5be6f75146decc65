"""The hook that pre-commit finds at the root does what it says."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
# https://pre-commit.com/#creating-new-hooks
REQUIRED = {"id", "name", "entry", "language"}
KNOWN = REQUIRED | {"description", "types_or", "files", "pass_filenames", "require_serial", "always_run", "args"}


def test_the_hook_has_what_pre_commit_asks_for() -> None:
    (hook,) = HOOKS
    assert set(hook) >= REQUIRED
    assert set(hook) <= KNOWN
    assert (hook["id"], hook["language"], hook["types_or"]) == ("mlcheck", "python", ["python", "jupyter"])


@pytest.mark.parametrize(("code", "expected"), [("x = 1\n", 0), ("def f(:\n", 1)])
def test_the_hook_stops_a_commit_with_findings(tmp_path: Path, code: str, expected: int) -> None:
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    (hook,) = HOOKS
    assert hook["pass_filenames"] is False
    program, *arguments = shlex.split(hook["entry"])
    assert program == "mlcheck"
    command = [sys.executable, "-m", "mlcheck", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
