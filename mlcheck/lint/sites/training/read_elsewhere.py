"""Whether a schedule that is kept under a name is ever read there for more than its state."""

from __future__ import annotations

import ast
import re

from mlcheck.lint.nodes import assigned, is_name, reads_of, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Function

_ASKED = ("state_dict", "load_state_dict", "get_last_lr")


def leaves_be(function: Function, parameter: str) -> bool:
    """Whether a function does nothing with what it is given, but keep it where nobody reads it."""
    nodes = walk(function.node)
    reads = reads_of(nodes, parameter)
    if not reads:
        return True
    pairs = (pair for line in nodes if isinstance(line, ast.Assign) for pair in assigned(line))
    kept = [(value, target) for target, value in pairs if is_name(value, parameter)]
    names = [own_attribute(target, function) for _, target in kept]
    if {id(read) for read in reads} != {id(value) for value, _ in kept} or not all(names):
        return False
    if function.cls is not None and any(not base.startswith("builtins.") for base in function.cls.libraries):
        return False
    for file in function.file.sites.mentioning(names, tests=True):
        if any(is_spoken(file.text, name) or is_read_in(file.module.source.tree, name) for name in names):
            return False
        if "__dict__" in file.text or "vars(" in file.text:
            return False
    return True


def is_spoken(text: str, name: str) -> bool:
    """Whether a string may ask an object for the attribute: any but the keys that its state is saved under."""
    keys = rf"""["']{name}["']: [\w.]*\b{name}\.state_dict\(\)|\b{name}\.load_state_dict\(\w+\[["']{name}["']\]\)"""
    rest = re.sub(keys, "", text)
    return f'"{name}"' in rest or f"'{name}'" in rest


def only_asked(nodes: list[ast.AST]) -> set[ast.AST]:
    """What is only asked for its state or its rate, or whether it is None."""
    asked: set[ast.AST] = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in _ASKED}
    for node in nodes:
        match node:
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                asked.add(left)
    return asked


def is_read_in(tree: ast.AST, name: str) -> bool:
    """Whether an attribute of that name is read for more than its state; modules of PyTorch may be called so too."""
    nodes = [node for node in walk(tree) if isinstance(node, ast.Attribute)]
    idle = {node.value for node in nodes if node.attr[:1].isupper()} | only_asked(walk(tree))
    return any(node.attr == name and isinstance(node.ctx, ast.Load) and node not in idle for node in nodes)
