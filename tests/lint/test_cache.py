"""A warm run says what a cold one says, whatever was edited in between, and analyses only what it has to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cached_program import STATES, first_state, lint, said, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlcheck.lint.engine

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


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_a_call_from_elsewhere_is_a_change_where_it_may_mean_the_function(analysed: list[list[str]]) -> None:
    """A function that somebody may call may run under that caller's no_grad; one of the same name is another."""
    evaluate = STATES["steps.py"][1]
    write({"a/steps.py": evaluate, "b/steps.py": evaluate, "alone.py": "x = 1\n"})
    lint()
    analysed.clear()
    write({"alone.py": "def evaluate(): ...\nevaluate()\n"})
    lint()
    assert analysed == [["alone.py"]]
    analysed.clear()
    write({"alone.py": "from c.steps import evaluate\nevaluate()\n"})
    lint()
    assert sorted(analysed) == [["a/steps.py"], ["alone.py"], ["b/steps.py"]]


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


def test_another_version_is_asked_anew(monkeypatch: pytest.MonkeyPatch, analysed: list[list[str]]) -> None:
    write({"train.py": "x = 1\n"})
    lint()
    analysed.clear()
    monkeypatch.setattr("mlcheck.lint.work.cache.__version__", "99.0")
    lint()
    assert analysed == [["train.py"]]
