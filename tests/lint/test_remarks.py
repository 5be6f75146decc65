"""What is not run is left out of a file's code, and every line and column stays where it is."""

from __future__ import annotations

import ast

import pytest

from mlcheck.lint.files.remarks import without_remarks


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x = 1  # model.eval()\n", "x = 1\n"),
        ('url = "#top"  # eval\n', 'url = "#top"\n'),
        ("it = \"isn't\"  # don't\n", 'it = "isn\'t"\n'),
        ('"""A file."""\nx = 1\n', "\nx = 1\n"),
        ('def f():\n    r"""Calls `eval`."""\n', "def f():\n    r\n"),
        ("def f():\n    '''\n    model.eval()\n    '''\n    return 1\n", "def f():\n\n\n\n    return 1\n"),
        ('sql = """\n# not a comment\n"""\n', 'sql = """\n# not a comment\n"""\n'),
        ('run(\n    """eval"""\n)\n', 'run(\n    """eval"""\n)\n'),
        ('text = """eval""" + \\\n"""more"""\n', 'text = """eval""" + \\\n"""more"""\n'),
        ('x = "\\""  # "\n', 'x = "\\""\n'),
        ('x = """a\\""""  # b\n', 'x = """a\\""""\n'),
        ("x = 1\n", "x = 1\n"),
        ("x = 1  # the last line", "x = 1"),
    ],
)
def test_what_is_left(text: str, kept: str) -> None:
    code = without_remarks(text)
    assert [len(line) for line in code.split("\n")] == [len(line) for line in text.split("\n")]
    assert [line.rstrip() for line in code.split("\n")] == kept.split("\n")


def test_the_code_is_the_same_program() -> None:
    text = 'def f(x):  # f\n    # first\n    y = x + 1  # add \'\n    return f"{y}#"  # done "\n'
    assert ast.dump(ast.parse(without_remarks(text)), include_attributes=True) == ast.dump(
        ast.parse(text), include_attributes=True
    )


def test_a_string_that_is_never_closed_does_no_harm() -> None:
    assert without_remarks('x = """never closed # here') == 'x = """never closed       '
