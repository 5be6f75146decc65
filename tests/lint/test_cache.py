"""A warm run says what a cold one says, whatever was edited in between and whatever became of the cache."""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlcheck.lint.engine
from mlcheck.core.finding import Finding, Location
from mlcheck.core.report import Report
from mlcheck.lint.cache import Cache, key
from mlcheck.lint.run import LintSettings, run_lint

NET = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.drop = nn.Dropout()

    def forward(self, x):
        return self.drop(self.layer(x))
"""
TRAIN = """\
import torch
from torch import nn
from net import Net
from steps import evaluate


def train(loader, val_loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    evaluate(model, val_loader)
"""
STEPS = """\
import torch


def evaluate(model, val_loader):
    model.eval()
    with torch.no_grad():
        for inputs, labels in val_loader:
            print(model(inputs))
"""
# Each file in several states: sound, with one defect or another, without its imports, broken, moved down.
STATES = {
    "net.py": [NET, NET.replace("return self.drop(self.layer(x))", "return self.layer(x).softmax(1)"), "", "class ("],
    "train.py": [
        TRAIN,
        TRAIN.replace("        optimizer.zero_grad()\n", ""),
        TRAIN.replace("from net import Net", "from other.net import Net"),
        TRAIN.replace("from steps import evaluate\n", ""),
        "# moved\n\n" + TRAIN.replace("        optimizer.zero_grad()\n", ""),
    ],
    "steps.py": [
        STEPS,
        STEPS.replace("    with torch.no_grad():\n        for", "    if True:\n        for"),
        STEPS.replace("    model.eval()\n", ""),
        "größe = 1\n" + STEPS.replace("    with torch.no_grad():", "    if True:"),
    ],
    "other/net.py": [NET, NET.replace("self.drop(self.layer(x))", "nn.functional.log_softmax(self.layer(x), 1)")],
    "alone.py": [
        TRAIN.replace("from net import Net", "Net = torch.nn.Identity").replace("from steps import evaluate\n", ""),
        "def run(trainer, loader):\n    trainer.evaluate(loader)\n",
        "x = 1  # mlcheck: ignore[missing-zero-grad] nothing here\n",
    ],
}
EDITS = st.lists(
    st.sampled_from(sorted(STATES)).flatmap(
        lambda name: st.tuples(st.just(name), st.one_of(st.none(), st.sampled_from(STATES[name])))
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def first_state() -> dict[str, str]:
    return {name: states[0] for name, states in STATES.items()}


def lint(cache: str = ".cache", **more: object) -> Report:
    return run_lint(["."], LintSettings(cache=cache, **more))  # type: ignore[arg-type]


def said(report: Report) -> tuple[object, ...]:
    return report.results, report.notices


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EDITS)
def test_a_warm_run_says_what_a_cold_one_says(project: Path, edits: list[tuple[str, str | None]]) -> None:
    write(first_state())
    for name, text in edits:
        lint()
        if text is None:
            Path(name).unlink(missing_ok=True)
        else:
            write({name: text})
        assert said(lint()) == said(lint(cache=""))


def test_the_edits_matter() -> None:
    """The states differ in what is found, or the test above compared nothing with nothing."""
    found = set()
    for name, states in STATES.items():
        for text in states:
            write(first_state() | {name: text})
            found.add(tuple((r.rule, f.location.line) for r in lint(cache="").results for f in r.findings))
    assert len(found) >= 8


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files of each group that the engine is given."""
    real, asked = mlcheck.lint.engine.analyse, []

    def watched(sources, *args, **more):  # type: ignore[no-untyped-def]
        asked.append([source.path for source in sources])
        return real(sources, *args, **more)

    monkeypatch.setattr(mlcheck.lint.engine, "analyse", watched)
    return asked


def test_nothing_changed_and_nothing_is_analysed(analysed: list[list[str]]) -> None:
    write(first_state())
    cold = lint()
    assert sorted(path for paths in analysed for path in paths) == sorted(STATES)
    analysed.clear()
    written = Path(".cache").stat().st_mtime_ns, sorted(Path(".cache").iterdir())
    assert said(lint()) == said(cold)
    assert analysed == []
    assert (Path(".cache").stat().st_mtime_ns, sorted(Path(".cache").iterdir())) == written


def test_a_warm_run_loads_neither_engine_nor_checks() -> None:
    write({"train.py": STATES["alone.py"][0].replace("        optimizer.zero_grad()\n", "")})
    script = (
        "import sys\n"
        "from mlcheck.lint.run import LintSettings, run_lint\n"
        "report = run_lint(['.'], LintSettings(cache='.cache'))\n"
        "print([r.rule for r in report.results if r.findings], len(report.results))\n"
        "print(sorted({'mlcheck.lint.engine', 'mlcheck.lint.program'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", script]
    cold, warm = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert cold.splitlines()[0] == warm.splitlines()[0]
    assert "missing-zero-grad" in warm
    assert (cold.splitlines()[1], warm.splitlines()[1]) == (
        "['mlcheck.lint.engine', 'mlcheck.lint.program']",
        "[]",
    )


def test_only_what_depends_on_the_change_is_analysed(analysed: list[list[str]]) -> None:
    write(first_state())
    lint()
    analysed.clear()
    write({"net.py": STATES["net.py"][1]})
    lint()
    assert [sorted(paths) for paths in analysed] == [["net.py", "steps.py", "train.py"]]


def test_a_call_from_elsewhere_is_a_change(analysed: list[list[str]]) -> None:
    """A function that somebody calls by name may run under that caller's no_grad."""
    evaluate = STATES["steps.py"][1]
    write({"steps.py": evaluate, "alone.py": "x = 1\n"})
    lint()
    analysed.clear()
    write({"alone.py": STATES["alone.py"][1]})
    lint()
    assert sorted(analysed) == [["alone.py"], ["steps.py"]]


def test_what_is_selected_is_no_matter_to_the_cache(analysed: list[list[str]]) -> None:
    write({"train.py": STATES["alone.py"][0].replace("        optimizer.zero_grad()\n", "")})
    assert [r.rule for r in lint(select=("softmax-before-ce",)).results if r.findings] == []
    analysed.clear()
    assert [r.rule for r in lint(select=("missing-zero-grad",)).results if r.findings] == ["missing-zero-grad"]
    assert analysed == []


def test_another_target_is_another_answer(analysed: list[list[str]]) -> None:
    write({"train.py": "x = 1\n"})
    lint()
    lint(target_torch="2.12")
    assert len(analysed) == 2


def test_what_broke_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    write({"train.py": "x = 1\n"})
    with monkeypatch.context() as patch:
        crash = mlcheck.lint.engine.Crash("", "train.py", "Traceback\nKeyError: 'planted'\n")
        patch.setattr(mlcheck.lint.engine, "analyse", lambda *args, **more: iter([crash]))
        assert "error" in {result.outcome.value for result in lint().results}
    assert "error" not in {result.outcome.value for result in lint().results}


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


def test_another_version_is_asked_anew(monkeypatch: pytest.MonkeyPatch, analysed: list[list[str]]) -> None:
    write({"train.py": "x = 1\n"})
    lint()
    analysed.clear()
    monkeypatch.setattr("mlcheck.lint.cache.__version__", "99.0")
    lint()
    assert analysed == [["train.py"]]


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
    monkeypatch.setattr("mlcheck.lint.cache._MOST_BYTES", 4_000)
    for number in range(30):
        cache = Cache(".cache")
        cache.keep_answers(key(number), [("rule", Finding("x" * 200, Location("a.py", number)))], {"loss": 1})
        cache.save()
        assert kept().stat().st_size < 4_100
        assert Cache(".cache").answers(key(number)) is not None
    assert Cache(".cache").answers(key(28)) is not None
    assert Cache(".cache").answers(key(0)) is None


def test_what_alone_is_too_big_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcheck.lint.cache._MOST_BYTES", 100)
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
