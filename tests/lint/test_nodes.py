"""The fast walk finds what `ast.walk` finds, whatever there is in Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mlcheck.lint.nodes import walk

HERE = Path(__file__).parent
WORDS = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
ODD = """
async def f(a, /, b: int = 1, *c, d=2, **e) -> str:
    global g
    (n := not a or b and c)
    async with a as b, c:
        await (yield)
    async for x in y:
        del x[1:2, ...]
    try:
        assert a < b <= c, f"{a!r:>{b}}"
    except (A, B) as error:
        raise C from error
    else:
        nonlocal_ = {**a, "b": [*c], 1: {d}}
    finally:
        import a.b as c, d
    return [x for x in y if x async for z in x], {k: v for k, v in y}, (lambda *a, k=1: -a)(**e)

@d
class K(B, metaclass=M):
    x: int
    x: int = 1
    x += 1
    match x:
        case {"a": 1, **rest} | [1, *_] | K(1, y=2) | None | "s" as z if z:
            pass
        case _:
            from . import *
"""


@pytest.mark.parametrize("code", [ODD, *(file.read_text("utf-8") for file in HERE.glob("*.py"))])
def test_it_finds_what_the_library_finds_in_the_same_order(code: str) -> None:
    tree = ast.parse(code)
    assert walk(tree) == [node for node in ast.walk(tree) if not isinstance(node, WORDS)]
