"""Several processes say what one says, in the same order; where one of them is lost, so much is said."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from mlcheck.cli import main
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Report
from mlcheck.lint.checks import missing_zero_grad, unsafe_load
from mlcheck.lint.facts import Facts
from mlcheck.lint.files.discover import PythonFile
from mlcheck.lint.files.outlines import Group
from mlcheck.lint.files.reading import Text
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.lint.versions import ANY
from mlcheck.lint.work import jobs, parts, workers
from mlcheck.lint.work.asking import ask
from mlcheck.lint.work.tasks import Part, Said, Task
from tests.pages import RULES

NET = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x).softmax(1)
"""
TRAIN = """\
import torch
from torch import nn
from .net import Net


def train(loader):
    "größer"; model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.load_state_dict(torch.load("weights.pt", weights_only=False))
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
OF_EVENTS, OF_SITES = "missing-zero-grad", "unsafe-load"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three packages that know nothing of one another, and files that cannot be read or say nothing."""
    monkeypatch.chdir(tmp_path)
    for package in ("alpha", "beta", "gamma"):
        folder = Path(package)
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "net.py").write_text(NET, encoding="utf-8")
        (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    for name in ("again", "more"):
        Path("beta", f"{name}.py").write_text(TRAIN.replace("def train", f"def {name}"), encoding="utf-8")
    Path("broken.py").write_text("import torch\nclass (\n", encoding="utf-8")
    Path("plain.py").write_text("x = 1\n", encoding="utf-8")


@pytest.fixture(params=["forked", "begun anew"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the program is, processes share it: in the way of Linux, and of Windows and macOS."""
    share(monkeypatch, fork=request.param == "forked")


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    share(monkeypatch, fork=True)


def share(monkeypatch: pytest.MonkeyPatch, fork: bool) -> None:
    monkeypatch.setattr(jobs, "CAN_FORK", fork)
    monkeypatch.setattr(jobs, "WORTH_A_FORK", 1)
    monkeypatch.setattr(jobs, "WORTH_A_START", 1)


def lint(number: int, **settings: object) -> Report:
    """What is reported, but for the time it took; and no process is left behind."""
    report = run_lint(["."], LintSettings(jobs=number, **settings))  # type: ignore[arg-type]
    assert_no_process_is_left()
    return replace(report, started="", seconds=0.0)


def assert_no_process_is_left() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_report_is_the_same(processes: None) -> None:
    alone = lint(1)
    found = {result.rule: len(result.findings) for result in alone.results}
    assert (found[OF_EVENTS], found[OF_SITES], found["softmax-before-ce"], found["unreadable-file"]) == (5, 5, 3, 1)
    assert lint(2) == alone
    assert lint(5, select=(OF_SITES,)) == lint(1, select=(OF_SITES,))


def test_what_they_found_is_kept(processes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = lint(1)
    assert lint(3, cache=".cache") == alone
    kept = next(Path(".cache").glob("lint-*.json")).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(workers, "hire", None)
        assert lint(3, cache=".cache") == alone
    Path(".cache").rename(".other")
    assert lint(1, cache=".cache") == alone
    assert next(Path(".cache").glob("lint-*.json")).read_bytes() == kept
    Path("beta/train.py").write_text(TRAIN.replace(", weights_only=False", ""), encoding="utf-8")
    assert lint(2, cache=".cache") == lint(1)


def test_the_bar_counts_all_files(copies: None) -> None:
    told: list[tuple[int, int]] = []
    run_lint(["."], LintSettings(jobs=2), lambda done, total: told.append((done, total)))
    assert told[0] == (0, 13)
    assert told[-1] == (13, 13)
    assert told == sorted(told)


def test_only_trees_of_a_bearable_size_are_copied(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [Text(PythonFile(f"beta/{name}.py", f"beta.{name}")) for name in ("net", "train")]
    task = Task(Group((0, 1), frozenset()), None, ANY)
    assert [piece.task.part for piece in jobs._pieces(texts, [task], 2)] == [Part.EVENTS, Part.SITES]
    monkeypatch.setattr(jobs, "MOST_COPIED", 100)
    assert [piece.task.part for piece in jobs._pieces(texts, [task], 2)] == [Part.ALL]


def test_what_one_process_must_do_alone_is_not_handed_to_a_copy(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WORTH_A_FORK", 300)
    Path("beta/net.py").write_text(NET + "# long\n" * 300, encoding="utf-8")
    monkeypatch.setattr(jobs, "MOST_COPIED", 1000)
    for package in ("alpha", "gamma"):
        for name in ("net", "train"):
            Path(package, f"{name}.py").unlink()
    monkeypatch.setattr(workers, "hire", None)
    assert lint(2) == lint(1)


def test_a_small_program_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "hire", None)
    assert lint(8) == lint(1)


def test_without_processes_to_be_had_one_does_it_all(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    assert lint(2) == lint(1)


def test_a_check_that_breaks_in_a_process_is_an_error(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(facts: object) -> Iterator[Finding]:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(unsafe_load, "check", broken)
    alone = lint(1)
    assert {result.outcome for result in alone.results if result.rule == OF_SITES} == {Outcome.ERROR}
    assert lint(2) == alone


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_is_one_sentence(
    number: signal.Signals, copies: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(facts: Facts) -> Iterator[Finding]:
        if facts.steps and os.getpid() != parent:
            os.kill(os.getpid(), number)
        return iter(())

    parent = os.getpid()
    monkeypatch.setattr(missing_zero_grad, "check", killed)
    assert main(["lint", "--no-cache", "--jobs", "2"]) == 2
    assert_no_process_is_left()
    told = capsys.readouterr()
    assert not told.out
    said = rf"mlcheck: a lint process was killed \({number.name}\) while it read \w+/\S+ and \d more: .*\n"
    assert re.fullmatch(said, told.err), told.err
    assert "`--jobs 1`" in told.err
    assert main(["lint", "--no-cache", "--jobs", "1", "--exit-zero"]) == 0


def test_an_interruption_ends_them_all(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    def endless(facts: Facts) -> Iterator[Finding]:
        if facts.steps:
            time.sleep(60)
        return iter(())

    monkeypatch.setattr(missing_zero_grad, "check", endless)
    monkeypatch.setattr(jobs, "_pieces", smallest_first(jobs._pieces))
    with pytest.raises(KeyboardInterrupt):
        run_lint(["."], LintSettings(jobs=2), interrupted)
    assert_no_process_is_left()


def smallest_first(pieces: Callable[..., list[object]]) -> Callable[..., list[object]]:
    return lambda *given: list(reversed(pieces(*given)))


def test_a_rule_that_was_taken_for_one_without_events_is_asked_again(
    copies: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = lint(1)
    monkeypatch.setattr(parts, "reads_events", lambda check: False)
    assert lint(2) == alone


def test_two_parts_say_what_one_says_of_every_page() -> None:
    """All examples of all pages as one program: it is the largest in which every rule has something to say."""
    texts = []
    rules = [rule for rule in RULES if By.LINT in rule.by]
    for rule in rules:
        example = next(example for example in rule.examples if example.kind == "bad")
        folder = Path(rule.name)
        for name, code in example.files.items():
            if name.endswith(".py"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(code, encoding="utf-8")
                texts.append(Text(PythonFile(str(folder / name), f"{rule.name}/{name[:-3]}".replace("/", "."))))
    task = Task(Group(tuple(range(len(texts))), frozenset()), None, ANY)
    whole, *said = (ask(texts, task._replace(part=part)) for part in Part)
    assert not [rule for part in said for rule in part.left]
    assert all(part.seen.told and part.answers for part in said)
    joined = reduce(Said.joined, said)
    assert joined.answers == whole.answers
    assert joined.failures == whole.failures
    assert joined.seen.counts == whole.seen.counts


@pytest.mark.parametrize("number", ["0", "-1", "many", "1000", ""])
def test_a_number_of_processes_that_is_none(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lint", "--jobs", number])
    assert stopped.value.code == 2
    assert "a number of processes, from 1 to 256" in capsys.readouterr().err
