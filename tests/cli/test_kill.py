"""Killed at any moment, a command leaves what was there before, or all of what it was writing."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("kill_commands", Path(__file__).parents[1] / "kill_commands.py")
assert _spec
assert _spec.loader
kills = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kills)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("kill") / "project"
    kills.COMMANDS["saved"] = ["lint", ".", "--no-baseline", "--format", "json", "--output", "mlcheck-report.json"]
    kills.made(folder, ("baseline", "saved"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", ["baseline", "report", "sign", "waive", "init"])
def test_what_was_there_is_whole(command: str, project: Path, tmp_path: Path) -> None:
    chance = random.Random(command)
    for number in range(2):
        assert kills.round_of(command, project, tmp_path / str(number), chance.uniform(0.05, 0.8)) == []


def test_the_kills_would_see_a_broken_file(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    kills.shutil.copytree(project, folder)
    assert kills.broken(folder, project) == []
    baseline = folder / "mlcheck-baseline.json"
    baseline.write_text(json.dumps(json.loads(baseline.read_text()))[:-5])
    (folder / "signoff.toml").unlink()
    assert [told.partition(":")[0] for told in kills.broken(folder, project)] == [
        "mlcheck-baseline.json",
        "signoff.toml",
    ]
