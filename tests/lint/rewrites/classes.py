"""A function as an object."""

from __future__ import annotations

import ast

from rewrites.names import bound, has_plain_parameters, is_simple, of_comprehensions, parameters
from rewrites.program import block, function, functions, of_each_file, statements


@of_each_file
def as_object(tree: ast.Module) -> bool:
    """Its parameters and what its first lines bind are attributes; `__init__` sets them, and `run` does the rest."""
    made = [(owner, cls) for owner in functions(tree) if (cls := _class_of(owner)) is not None]
    for owner, cls in made:
        owner.body = block(f"return {cls.name}({', '.join(parameters(owner))}).run()")
        tree.body.insert(tree.body.index(owner), cls)
    return bool(made)


def _class_of(owner: ast.FunctionDef) -> ast.ClassDef | None:
    plain = [isinstance(line, ast.Assign | ast.Expr) for line in owner.body]
    head = owner.body[: plain.index(False)] if False in plain else []
    rest = owner.body[len(head) :]
    names = bound(head) | set(parameters(owner))
    inside = bound(node.target for line in rest for node in ast.walk(line) if isinstance(node, ast.For))
    if not head or not is_simple(owner.body) or not has_plain_parameters(owner):
        return None
    if names & (inside | of_comprehensions(owner.body)):
        return None
    given = statements("\n".join(f"self.{name} = {name}" for name in parameters(owner)))
    turned = [_AsAttributes(names).visit(line) for line in owner.body]
    init = function("__init__", ["self", *parameters(owner)], [*given, *turned[: len(head)]])
    run = function("run", ["self"], turned[len(head) :])
    (cls,) = statements(f"class {owner.name.title().replace('_', '')}Runner: pass")
    assert isinstance(cls, ast.ClassDef)
    cls.body = [init, run]
    return cls


class _AsAttributes(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names:
            return node
        return ast.Attribute(ast.Name("self", ast.Load()), node.id, node.ctx)
