"""The fast walk finds what `ast.walk` finds, whatever there is in Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mlcheck.lint.nodes import before_methods, is_attribute, last_name, loads, own_nodes, stores, walk

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


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def test_own_nodes_leave_out_what_is_defined_inside() -> None:
    tree = ast.parse("a\nif b: c\ndef f(): d\nclass E: g\n(lambda: h)\nasync def i(): j\n[k for k in l]\n")
    assert {node.id for node in own_nodes(tree) if isinstance(node, ast.Name)} == {"a", "b", "c", "k", "l"}


@pytest.mark.parametrize(("text", "name"), [("c", "c"), ("a.b.c", "c"), ("f().c", "c"), ("c()", ""), ("c[0]", "")])
def test_the_last_name_is_that_of_a_name_or_attribute(text: str, name: str) -> None:
    assert last_name(expression(text)) == name


def test_an_attribute_is_of_a_name_and_not_of_its_parts() -> None:
    assert is_attribute(expression("self.net"), "self", "net")
    assert not any(
        is_attribute(expression(text), "self", "net") for text in ("self.net.fc", "other.net", "net", "f().net")
    )


@pytest.mark.parametrize(
    ("text", "left"), [("x.to(d).float()", "x"), ("x.to(d).view(1)", "x.to(d).view(1)"), ("x", "x"), ("to(x)", "to(x)")]
)
def test_methods_that_keep_a_value_are_looked_through(text: str, left: str) -> None:
    assert ast.unparse(before_methods(expression(text), ("to", "float"))) == left


@pytest.mark.parametrize(
    ("text", "stored", "loaded"),
    [
        ("x = y", True, False),
        ("y = x", False, True),
        ("x += 1", True, False),
        ("x.y = 1", False, True),
        ("del x", True, False),
        ("for x in z: pass", True, False),
        ("y.x = 1", False, False),
    ],
)
def test_what_a_statement_stores_and_loads(text: str, stored: bool, loaded: bool) -> None:
    tree = ast.parse(text)
    assert (stores(tree, "x"), loads(tree, "x")) == (stored, loaded)
