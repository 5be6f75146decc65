"""What rewrites share: a program as files, and changes of one file's tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

Files = dict[str, str]
Rewrite = Callable[[Files], Files | None]
"""None where there is nothing in the program to rewrite."""
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def of_each_file(change: Callable[[ast.Module], bool]) -> Rewrite:
    """The rewrite that changes each file by itself; `change` says whether it found anything to do."""

    def rewrite(files: Files) -> Files | None:
        trees = {name: ast.parse(code) for name, code in files.items()}
        changed = [change(tree) for tree in trees.values()]
        return {name: text(tree.body) for name, tree in trees.items()} if any(changed) else None

    return rewrite


def text(body: Sequence[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(list(body), []))) + "\n"


def statements(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


def block(code: str) -> list[ast.stmt]:
    """Statements that stand in a function."""
    (function,) = ast.parse(f"def function():\n {code}").body
    assert isinstance(function, ast.FunctionDef)
    return function.body


def function(name: str, parameters: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    (made,) = statements(f"def {name}({', '.join(parameters)}): pass")
    assert isinstance(made, ast.FunctionDef)
    made.body = body
    return made


def below_imports(tree: ast.Module, code: str) -> None:
    """Put the code beneath the imports."""
    last = max((number for number, line in enumerate(tree.body, 1) if isinstance(line, IMPORTS)), default=0)
    tree.body[last:last] = statements(code)


def functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions at the top of a file, those without decorators that are no generators."""
    found = [line for line in tree.body if isinstance(line, ast.FunctionDef) and not line.decorator_list]
    return [one for one in found if not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(one))]


def inner_loops(code: ast.AST) -> Iterator[ast.For]:
    """The `for` loops with no other inside and more than one line."""
    for node in ast.walk(code):
        if isinstance(node, ast.For) and len(node.body) > 1:
            if sum(isinstance(inner, ast.For) for inner in ast.walk(node)) == 1:
                yield node
