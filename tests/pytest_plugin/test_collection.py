"""`pytest --mlcheck`: what is collected, what fails and with which words, and what is left alone."""

import pytest

FORGETFUL = """\
import torch
from torch import nn


def train(loader):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
CAREFUL = FORGETFUL.replace("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()")
SETTINGS = """\
[tool.mlcheck]
paths = ["src"]
[tool.pytest.ini_options]
testpaths = ["tests"]
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A package that cannot be imported, one program with a fault, one without, and a test."""
    pytester.path.joinpath("pyproject.toml").write_text(SETTINGS)
    for path, text in {
        "src/package/__init__.py": "raise RuntimeError('imported')\n",
        "src/package/bad.py": FORGETFUL,
        "src/package/good.py": CAREFUL,
        "tests/test_one.py": "def test_one(): pass\n",
    }.items():
        file = pytester.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return pytester


def ids(project: pytest.Pytester, *arguments: str) -> list[str]:
    out = project.runpytest("--collect-only", "-q", *arguments).stdout.str()
    return [line for line in out.splitlines() if "::" in line]


def test_without_the_option_nothing_is_added(project: pytest.Pytester) -> None:
    assert ids(project) == ["tests/test_one.py::test_one"]
    assert ids(project, "src") == []


def test_every_file_is_an_item_and_every_rule_that_found_something(project: pytest.Pytester) -> None:
    assert ids(project, "--mlcheck") == [
        "tests/test_one.py::test_one",
        "src/package/__init__.py::lint",
        "src/package/bad.py::lint:missing-zero-grad",
        "src/package/good.py::lint",
    ]


def test_a_finding_fails_with_its_place_and_what_to_do(project: pytest.Pytester) -> None:
    result = project.runpytest("--mlcheck")
    result.assert_outcomes(passed=3, failed=1)
    out = result.stdout.str()
    assert "at: src/package/bad.py:10:9" in out
    assert "do: call `optimizer.zero_grad()`" in out
    assert "FAILED src/package/bad.py::lint:missing-zero-grad - Failed: This backward" in out
    assert "nothing clears them (src/package/bad.py:10)\n" in out
    assert "nodes.py" not in out


def test_what_the_command_line_names_is_all_that_is_collected(project: pytest.Pytester) -> None:
    assert ids(project, "--mlcheck", "tests") == ["tests/test_one.py::test_one"]
    assert ids(project, "--mlcheck", "src/package/good.py") == ["src/package/good.py::lint"]
    chosen = "src/package/bad.py::lint:missing-zero-grad"
    project.runpytest("--mlcheck", chosen).assert_outcomes(failed=1)
    assert ids(project, "--mlcheck", "-k", "zero and not one") == [chosen]
    assert ids(project, "--mlcheck", "-m", "not mlcheck") == ["tests/test_one.py::test_one"]


def test_last_failed_runs_the_failed_one_alone(project: pytest.Pytester) -> None:
    project.runpytest("--mlcheck", "-p", "cacheprovider")
    again = project.runpytest("--mlcheck", "-p", "cacheprovider", "--lf")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*bad.py*"])


def test_junit_names_the_file_and_the_rule(project: pytest.Pytester) -> None:
    project.runpytest("--mlcheck", "--junitxml=out.xml")
    text = (project.path / "out.xml").read_text()
    assert 'name="lint:missing-zero-grad"' in text
    assert 'failures="1"' in text


def test_a_waived_rule_is_an_expected_failure(project: pytest.Pytester) -> None:
    waiver = '[waive.missing-zero-grad]\nreason = "on purpose"\nby = "Ada"\ndate = 2026-01-02\n'
    (project.path / "signoff.toml").write_text(waiver)
    result = project.runpytest("--mlcheck", "-rx")
    result.assert_outcomes(passed=3, xfailed=1)
    result.stdout.fnmatch_lines(["*waived by Ada*on purpose*"])


def test_what_the_baseline_knows_is_no_failure(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlcheck.cli import main

    monkeypatch.chdir(project.path)
    main(["lint", "--write-baseline"])
    project.runpytest("--mlcheck").assert_outcomes(passed=4)


def test_the_option_can_stand_in_the_configuration(project: pytest.Pytester) -> None:
    (project.path / "pyproject.toml").write_text(SETTINGS + "mlcheck = true\n")
    project.runpytest().assert_outcomes(passed=3, failed=1)


def test_a_mistake_in_the_settings_is_one_sentence(project: pytest.Pytester) -> None:
    (project.path / "pyproject.toml").write_text(SETTINGS.replace("paths", "pahts"))
    result = project.runpytest("--mlcheck")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*`[[]tool.mlcheck[]]` has no key `pahts`; did you mean `paths`?*"])
    (project.path / "pyproject.toml").write_text(SETTINGS.replace('"src"', '"scr"'))
    result = project.runpytest("--mlcheck")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*scr*"])


def test_workers_share_what_one_of_them_found(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("--mlcheck", "-n2", "-p", "xdist")
    result.assert_outcomes(passed=3, failed=1)


@pytest.mark.slow
def test_the_entry_point_is_an_item_for_each_probe(project: pytest.Pytester, entry: str) -> None:
    settings = SETTINGS.replace("paths", 'entry = "train:build"\npaths')
    (project.path / "pyproject.toml").write_text(settings + 'mlcheck_only = ["input-ignored", "missing-zero-grad"]\n')
    (project.path / "train.py").write_text(entry)
    assert ids(project, "--mlcheck", "pyproject.toml") == [
        "pyproject.toml::probe:entry-does-not-run",
        "pyproject.toml::probe:input-ignored",
        "pyproject.toml::probe:missing-zero-grad",
    ]
    result = project.runpytest("--mlcheck", "-rs", "pyproject.toml")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * pyproject.toml:1: probe:missing-zero-grad: the loop is mlcheck's own*"])


@pytest.mark.slow
def test_an_entry_point_that_is_not_there_fails_with_its_name(project: pytest.Pytester) -> None:
    settings = SETTINGS.replace("paths", 'entry = "absent:build"\npaths')
    (project.path / "pyproject.toml").write_text(settings + 'mlcheck_only = ["input-ignored"]\n')
    result = project.runpytest("--mlcheck", "pyproject.toml")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*no module `absent`*"])


def test_without_torch_one_sentence_says_what_to_install(project: pytest.Pytester) -> None:
    project.makeconftest("from mlcheck.pytest_plugin import collection\ncollection.PROBE_NEEDS = ('no_torch_here',)\n")
    project.runpytest_subprocess("--mlcheck").assert_outcomes(passed=3, failed=1)
    (project.path / "pyproject.toml").write_text(SETTINGS.replace('["src"]', '["src"]\nentry = "package.good:train"'))
    result = project.runpytest_subprocess("--mlcheck")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*`mlcheck probe` needs no_torch_here: pip install 'mlcheck[[]probe[]]'*"])
