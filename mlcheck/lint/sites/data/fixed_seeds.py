"""Whether a seed is the same each time that a line runs."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import given
from mlcheck.lint.sites.scopes import Context


def is_fixed(call: Call, seed: ast.expr) -> bool:
    """Whether the seed is the same at every call: a constant, a setting, a name that nothing around it changes."""
    nodes = walk(seed)
    if any(isinstance(node, ast.Call | ast.BinOp | ast.Subscript) for node in nodes):
        return False
    if isinstance(seed, ast.Constant):
        return isinstance(seed.value, int)
    if isinstance(seed, ast.Attribute):
        return (
            isinstance(seed.value, ast.Name)
            and seed.attr.lower() in ("seed", "random_seed", "manual_seed")
            and (not _is_set_elsewhere(call, seed))
        )
    if not isinstance(seed, ast.Name):
        return False
    bound = call.file.bindings(seed.id, call.context)
    loops = [context.node for context in call.loops]
    return (
        len(bound) == 1
        and bound[0].kind in ("param", "value")
        and _is_outside(bound[0].context, loops)
        and (bound[0].kind == "param" or isinstance(bound[0].value, ast.Constant | ast.Attribute))
        and not (bound[0].kind == "param" and not loops)
    )


def is_one(call: Call, settings: ast.expr) -> bool:
    """Whether the settings are the same in each turn: a name that no loop gives, here or where this is called."""
    bound = call.file.bindings(settings.id, call.context) if isinstance(settings, ast.Name) else []
    if len(bound) != 1 or bound[0].kind == "loop":
        return False
    if bound[0].kind != "param" or call.function is None or not isinstance(settings, ast.Name):
        return True
    handed = [
        each.file.bindings(each.node.id, each.context) if isinstance(each.node, ast.Name) else []
        for each in given(call.file.sites, call.function, settings.id)
    ]
    return all(len(each) == 1 and each[0].kind != "loop" for each in handed)


def _is_outside(context: Context, loops: list[ast.AST]) -> bool:
    return not any(outer.node in loops for outer in context.outwards())


def _is_set_elsewhere(call: Call, seed: ast.Attribute) -> bool:
    """Whether the attribute is assigned anywhere but in a constructor, or by anybody but the object itself."""
    for file in call.file.sites.mentioning([f".{seed.attr}"]):
        for assigned in file.walk.attributes:
            if assigned.target.attr != seed.attr:
                continue
            method = file.method_around(assigned.context)
            if method is None or method.name != "__init__" or assigned.value is None:
                return True
    return False
