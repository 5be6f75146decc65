"""The file that a cache keeps: damaged, too large, of a killed run, written by several at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cached_program import STATES, first_state, lint, said, write

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.work.cache import Cache, key


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kept() -> Path:
    (path,) = Path(".cache").glob("lint-*.json")
    return path


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data.replace(b"backward", b"backwarp"),
        lambda data: os.urandom(500),
        lambda data: data.partition(b"\n")[2],
        lambda data: b"0" * 64 + b"\n[{},{},{},[]]",
        lambda data: b"[" * 100_000,
    ],
)
def test_a_damaged_cache_is_built_again_silently(damage, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    write(first_state() | {"train.py": STATES["train.py"][1]})
    cold = lint()
    sound = kept().read_bytes()
    kept().write_bytes(damage(sound))
    assert said(lint()) == said(cold)
    assert kept().read_bytes() == sound
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_cannot_be_written_is_no_reason_to_complain(capfd: pytest.CaptureFixture[str]) -> None:
    write(first_state())
    Path("taken").write_text("a file", encoding="utf-8")
    assert said(lint(cache="taken")) == said(lint(cache=""))
    assert Path("taken").read_text(encoding="utf-8") == "a file"
    assert capfd.readouterr() == ("", "")


def test_the_folder_keeps_itself_out_of_version_control() -> None:
    write({"train.py": "x = 1\n"})
    lint()
    assert Path(".cache/.gitignore").read_text(encoding="utf-8").splitlines()[-1] == "*"
    assert (
        Path(".cache/CACHEDIR.TAG")
        .read_text(encoding="utf-8")
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )


def test_files_that_a_killed_run_left_are_cleared_away() -> None:
    write({"train.py": "x = 1\n"})
    Path(".cache").mkdir()
    name = "lint-{}.{}.json".format(*sys.version_info)
    old, fresh = Path(f".cache/{name}.1.partial"), Path(f".cache/{name}.2.partial")
    old.write_text("half", encoding="utf-8")
    fresh.write_text("half", encoding="utf-8")
    os.utime(old, (time.time() - 10_000, time.time() - 10_000))
    lint()
    assert (old.exists(), fresh.exists()) == (False, True)


def test_its_size_is_bounded_and_what_is_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcheck.lint.work.cache._MOST_BYTES", 4_000)
    for number in range(30):
        cache = Cache(".cache")
        cache.keep_answers(key(number), [("rule", Finding("x" * 200, Location("a.py", number)))], {"loss": 1})
        cache.save()
        assert kept().stat().st_size < 4_100
        assert Cache(".cache").answers(key(number)) is not None
    assert Cache(".cache").answers(key(28)) is not None
    assert Cache(".cache").answers(key(0)) is None


def test_what_alone_is_too_big_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcheck.lint.work.cache._MOST_BYTES", 100)
    cache = Cache(".cache")
    cache.keep_answers(key("big"), [("rule", Finding("x" * 200))], {})
    cache.save()
    assert not Path(".cache").exists()


def test_a_finding_comes_back_as_it_was() -> None:
    finding = Finding(
        "größe \udcff", Location("a.py", 1, 2, 3, 4, "f"), "help", {"x": 0.5}, (Location("b.py", 9), Location())
    )
    cache = Cache(".cache")
    cache.keep_answers("k", [("rule", finding)], {"loss": 2})
    cache.save()
    assert Cache(".cache").answers("k") == ([("rule", finding)], {"loss": 2})


def running(times: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "mlcheck", "lint", "--cache-dir", ".cache", "--format", "concise"]
    for _ in range(times):
        yield subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_runs_at_once_do_no_harm() -> None:
    write(first_state() | {"train.py": STATES["train.py"][1]})
    told = {process.communicate() for process in list(running(4))}
    assert len(told) == 1
    ((out, err),) = told
    assert b"missing-zero-grad" in out
    assert err == b""
    assert said(lint()) == said(lint(cache=""))


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_sound_cache() -> None:
    write(first_state())
    cold = said(lint(cache=""))
    chance = random.Random(0)
    for round_ in range(8):
        write({"alone.py": f"x = {round_}\n"})
        (process,) = running(1)
        time.sleep(chance.uniform(0.05, 0.6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        write({"alone.py": STATES["alone.py"][0]})
        assert said(lint()) == cold
