"""What a rule page may hold, and the one sentence a wrong one is told."""

from pathlib import Path

import pytest

from mlcheck.core.outcome import By, Severity, Stage
from mlcheck.core.rule import BadPage, read_page

TOML = '```toml\nseverity = "error"\nby = ["lint", "probe"]\nexplains = ["other-rule"]\n```\n'


def page(tmp_path: Path, text: str, stage: str = "training") -> Path:
    path = tmp_path / stage / "some-rule.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_page_is_registry_entry_prose_and_examples(tmp_path: Path) -> None:
    text = f"# It is so\n{TOML}\nBecause.\n\n```python bad\nx = 1\ny = 2  # error\n```\n```python good\nz = 3\n```\n"
    rule = read_page(page(tmp_path, text))
    assert (rule.name, rule.title, rule.stage) == ("some-rule", "It is so", Stage.TRAINING)
    assert (rule.severity, rule.by, rule.explains) == (Severity.ERROR, (By.LINT, By.PROBE), ("other-rule",))
    assert rule.body.startswith("Because.")
    assert "toml" not in rule.body
    bad, good = rule.examples
    assert (bad.kind, bad.errors, bad.line) == ("bad", (("example.py", 2),), 10)
    assert (good.kind, good.errors) == ("good", ())


def test_named_blocks_are_one_program_until_a_name_returns(tmp_path: Path) -> None:
    blocks = "".join(f"```python bad {name}\nx = 1  # error\n```\n" for name in ("a.py", "b.py", "a.py"))
    first, second = read_page(page(tmp_path, f"# T\n{TOML}{blocks}")).examples
    assert (list(first.files), first.errors) == (["a.py", "b.py"], (("a.py", 1), ("b.py", 1)))
    assert list(second.files) == ["a.py"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "first line"),
        (f"no heading\n{TOML}", "first line"),
        (f"# \n{TOML}", "first line"),
        ("# T\nprose only\n", "first fenced block"),
        ("# T\n```python bad\nx\n```\n", "first fenced block"),
        ("# T\n```toml\nseverity =\n```\n", "line 1"),
        ('# T\n```toml\nby = ["lint"]\n```\n', "severity"),
        ('# T\n```toml\nseverity = "fatal"\nby = ["lint"]\n```\n', "fatal"),
        ('# T\n```toml\nseverity = "error"\nby = ["oracle"]\n```\n', "oracle"),
        ('# T\n```toml\nseverity = "error"\nby = ["lint"]\nseverty = "x"\n```\n', "unknown key 'severty'"),
        (f"# T\n{TOML}```python ugly\nx\n```\n", "'ugly'"),
    ],
)
def test_a_wrong_page_is_named_with_its_fault(tmp_path: Path, text: str, told: str) -> None:
    path = page(tmp_path, text)
    with pytest.raises(BadPage, match=told) as caught:
        read_page(path)
    assert str(path) in str(caught.value)


def test_a_folder_that_is_no_stage(tmp_path: Path) -> None:
    with pytest.raises(BadPage, match="attic"):
        read_page(page(tmp_path, f"# T\n{TOML}", stage="attic"))
