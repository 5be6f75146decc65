"""`@pytest.mark.mlcheck(...)`: one test for each rule, decided before the test's own lines run."""

from collections.abc import Callable

import pytest

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
    ],
)
def test_a_wrong_mark_is_one_sentence(marked: Marked, options: str, told: str) -> None:
    pytester = marked(options)
    out = pytester.runpytest().stdout.str()
    assert told in out
    assert "Traceback" not in out


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
