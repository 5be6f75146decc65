"""What runs where a test holds, and where it does not, however it is written."""

from __future__ import annotations

import ast

import pytest

from mlcheck.lint.sites.branches import branches


def arms(text: str) -> list[tuple[str, str, str]]:
    """Test, what holds and what else, of each branch within a loop."""
    tree = ast.parse("for x in y:\n" + "".join(f"    {line}\n" for line in text.split("\n")))
    found = branches(ast.walk(tree))
    return [(ast.unparse(b.test), *("; ".join(map(ast.unparse, arm)) for arm in (b.held, b.other))) for b in found]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("if a:\n    b\nc", ("a", "b", "")),
        ("if a:\n    b\nelse:\n    c\nd", ("a", "b", "c")),
        ("if not a:\n    b\nelse:\n    c", ("a", "c", "b")),
        ("if not not a:\n    b", ("a", "b", "")),
        ("if a != 0:\n    b\nelse:\n    c", ("a == 0", "c", "b")),
        ("if not a is not None:\n    b", ("a is None", "b", "")),
        ("if not a < b:\n    c", ("a < b", "", "c")),
        ("if a >= b:\n    c", ("a >= b", "c", "")),
        ("if a != b != c:\n    d", ("a != b != c", "d", "")),
        ("if a:\n    continue\nb\nc", ("a", "continue", "b; c")),
        ("if not a:\n    continue\nb\nc", ("a", "b; c", "continue")),
        ("if a % 2 != 0:\n    break\nb", ("a % 2 == 0", "b", "break")),
        ("if a:\n    b\nelse:\n    continue\nc", ("a", "b; c", "continue")),
        ("if a:\n    continue\nelse:\n    b\nc", ("a", "continue", "b; c")),
        ("if a:\n    if b:\n        continue\nc", ("a", "if b:\n    continue", "")),
    ],
)
def test_arms(text: str, meant: tuple[str, str, str]) -> None:
    assert arms(text)[0] == meant
