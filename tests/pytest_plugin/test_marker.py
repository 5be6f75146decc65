"""`@pytest.mark.mlcheck(...)`: one test for each rule, decided before the test's own lines run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mlcheck.pytest_plugin.marker import parameters

Marked = Callable[..., pytest.Pytester]


@pytest.fixture
def marked(pytester: pytest.Pytester, entry: str) -> Marked:
    """Writes a program and a test with a mark of these options."""

    def write(options: str, body: str = "pass", arguments: str = "") -> pytest.Pytester:
        pytester.makepyfile(train=entry)
        test = f"import pytest\n@pytest.mark.mlcheck({options})\ndef test_it({arguments}):\n    {body}\n"
        pytester.makepyfile(test_it=test)
        return pytester

    return write


def test_the_rules_are_known_before_anything_runs(marked: Marked) -> None:
    pytester = marked('"nowhere:build", only=["input-ignored", "missing-zero-grad"]')
    out = pytester.runpytest("--collect-only", "-q").stdout.str().splitlines()
    assert out[:2] == ["test_it.py::test_it[input-ignored]", "test_it.py::test_it[missing-zero-grad]"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", "write the entry point alone before the options"),
        ("'train:build', onyl=['input-ignored']", "has no option `onyl`"),
        ("'train:build', only='input-ignord'", "did you mean `input-ignored`"),
        ("'train:build', options={'inputs-not-scaled': {'rsm': 9}}", "no option `rsm`; it has `rms`"),
    ],
)
def test_a_wrong_mark_is_one_sentence(marked: Marked, options: str, told: str) -> None:
    pytester = marked(options)
    out = pytester.runpytest().stdout.str()
    assert told in out
    assert "Traceback" not in out
    assert "pluggy" not in out.partition("ERROR collecting")[2]


@pytest.mark.slow
def test_a_marked_test_needs_no_argument_to_be_decided(marked: Marked) -> None:
    result = marked('"train:biuld", only=["input-ignored"]').runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no `biuld` in*did you mean `build`*"])


@pytest.mark.slow
def test_a_marked_test_is_decided_by_the_probe_and_gets_the_result(marked: Marked) -> None:
    pytester = marked(
        '"train:build", only=["input-ignored", "missing-zero-grad"]',
        "assert mlcheck_result.rule == 'input-ignored'",
        "mlcheck_result",
    )
    result = pytester.runpytest("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*the loop is mlcheck's own*"])


def test_the_projects_options_hold_and_those_of_the_mark_go_first(tmp_path: Path) -> None:
    table = "[tool.mlcheck.options.inputs-not-scaled]\nrms = 5\n[tool.mlcheck.options.dead-units]\nshare = 0.3\n"
    (tmp_path / "pyproject.toml").write_text(table)
    mark = pytest.mark.mlcheck("train:build", only="dead-units", options={"dead-units": {"share": 0.9}}).mark
    (given, *_), _ = parameters(mark, "test_it.py::test_it", tmp_path)
    assert given[0].rule_options == {"inputs-not-scaled": {"rms": 5.0}, "dead-units": {"share": 0.9}}
