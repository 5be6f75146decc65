"""The bar is for people who wait: not for pipes, and not for what is over in a moment."""

from __future__ import annotations

import io
import time

import pytest

from mlcheck.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def seen_by_a_person(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal. (pytest puts its own there after the fixtures have run.)"""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_a_pipe_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for bar in (progress.progress(), progress.patient_progress("lint")):
        with bar as show:
            assert show is None
    assert capsys.readouterr() == ("", "")


def test_what_is_over_in_a_moment_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = seen_by_a_person(monkeypatch)
    with progress.patient_progress("lint") as show:
        assert show is not None
        for done in range(100):
            show(done, 100)
    assert terminal.getvalue() == ""


def test_what_takes_long_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = seen_by_a_person(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    with progress.patient_progress("lint") as show:
        assert show is not None
        show(1, 7)
        for _ in range(200):
            if "1/7" in terminal.getvalue():
                break
            time.sleep(0.05)
        show(2, 7)
    assert "lint" in terminal.getvalue()
    assert "1/7" in terminal.getvalue()


def test_an_error_leaves_the_terminal_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = seen_by_a_person(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)

    def interrupted() -> None:
        with progress.patient_progress("lint") as show:
            assert show is not None
            show(1, 2)
            time.sleep(0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    shown = terminal.getvalue()
    assert shown.rfind("\x1b[?25l") <= shown.rfind("\x1b[?25h")
