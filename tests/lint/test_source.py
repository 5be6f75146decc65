"""Files that only an older Python reads: what can be read of them is, and every place stays where it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlcheck.lint.files.source import Source, Unreadable, parse
from mlcheck.lint.run import LintSettings, run_lint

OLD = b"x = y.cuda(async=True)\nz = f(1, async = False, k=2)\n"


def test_a_keyword_called_async_is_read_and_told() -> None:
    source = parse("old.py", OLD)
    assert isinstance(source, Source)
    assert source.text == OLD.decode()
    assert source.outdated is not None
    assert source.outdated.line == 1
    assert source.tree.body[1].value.keywords[1].col_offset == OLD.split(b"\n")[1].index(b"k=2")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [b"async = 1\n", b"print 'x', async=True\n", b"f(async=)\n", b"if async == 1: pass\n", b"def async(): pass\n"],
)
def test_what_is_wrong_otherwise_stays_unreadable(text: bytes) -> None:
    assert isinstance(parse("old.py", text), Unreadable)


def test_sound_code_is_not_outdated() -> None:
    source = parse("new.py", b"async def f():\n    return [x async for x in g()]\n")
    assert isinstance(source, Source)
    assert source.outdated is None


@pytest.mark.parametrize("name", [b"future_fstrings", b"future-fstrings"])
def test_the_codec_of_a_package_is_plain_text_to_this_python(name: bytes) -> None:
    source = parse("model.py", b"# -*- coding: " + name + b" -*-\nprint(f'{loss:.3f} \xc3\xa9')\n")
    assert isinstance(source, Source)
    assert source.outdated is None
    assert "\u00e9" in source.text


def test_an_unknown_codec_is_told() -> None:
    read = parse("model.py", b"# -*- coding: future_fstrings_of_ours -*-\nx = 1\n")
    assert isinstance(read, Unreadable)
    assert "future_fstrings_of_ours" in read.reason


def test_a_rule_looks_into_such_a_file(tmp_path: Path) -> None:
    program = tmp_path / "old.py"
    program.write_text(
        "import torch\nx = y.cuda(async=True)\nm = torch.load(p, weights_only=False)\n", encoding="utf-8"
    )
    report = run_lint([str(program)], LintSettings(select=("unsafe-load", "unreadable-file")))
    found = {(result.rule, finding.location.line) for result in report.results for finding in result.findings}
    assert found == {("unsafe-load", 3), ("unreadable-file", 2)}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="reads it")
@pytest.mark.parametrize(
    "text", [b'print(f"{names["a"]}")\n', b"type Pair[T] = tuple[T, T]\n", b"def first[T](x: list[T]) -> T: ...\n"]
)
def test_what_a_newer_python_reads_names_its_version(text: bytes) -> None:
    read = parse("new.py", text)
    assert isinstance(read, Unreadable)
    assert "Python 3.12 or later may read it; this is 3.11" in read.reason


def test_what_no_python_reads_names_no_version() -> None:
    read = parse("new.py", b"def broken(:\n")
    assert isinstance(read, Unreadable)
    assert "may read it" not in read.reason
