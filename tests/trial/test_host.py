"""What a machine gives to processes, and what it does not tell."""

from __future__ import annotations

from pathlib import Path

from mlcheck.trial.observe.host import proportional_memory, shared_memory


def test_what_the_system_does_not_tell_is_unknown(tmp_path: Path) -> None:
    assert shared_memory(tmp_path / "absent") is None
    assert proportional_memory(-1) is None
