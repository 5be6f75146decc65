"""What a script may change around it, and a second run must find as the first did."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mlcheck.trial.script.surroundings import Surroundings


@pytest.mark.parametrize("marked", [True, False], ids=["package", "folder without __init__"])
def test_the_users_packages_are_imported_anew(marked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "outer_of_user" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").touch()
    if marked:
        (inner / "__init__.py").touch()
    (inner / "parts.py").write_text("COUNT = [0]\n")
    before = Surroundings()
    for _ in range(2):
        monkeypatch.syspath_prepend(tmp_path)
        from outer_of_user.inner.parts import COUNT

        COUNT[0] += 1
        assert COUNT == [1]
        before.restore()
        assert not [name for name in sys.modules if name.startswith("outer_of_user")]


def test_settings_that_nobody_changed_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """To set it loads the whole of torch's compiler, half of what a run of a small program takes."""
    before = Surroundings()
    torch.use_deterministic_algorithms(True)
    before.restore()
    assert not torch.are_deterministic_algorithms_enabled()
    monkeypatch.delattr(torch, "use_deterministic_algorithms")
    before.restore()
