"""Attributes that are read by a name in a string, or off another object than `self`."""

from __future__ import annotations

import ast
import re

from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import Class

_ANYTHING = ".*"
SETTINGS = frozenset(["args", "opt", "opts", "cfg", "config", "conf", "hparams", "params", "options", "settings"])


def may_fetch(cls: Class, name: str) -> bool:
    """Whether a `getattr` in the class may mean the attribute: `getattr(self, f"layer{i}")` means no `head`."""
    return any(
        isinstance(node, ast.Call)
        and last_name(node.func) == "getattr"
        and (len(node.args) < 2 or re.fullmatch(_pattern(node.args[1]), name) is not None)
        for base in cls.line
        if "getattr" in base.file.text
        for node in walk(base.node)
    )


def _pattern(node: ast.expr) -> str:
    """What a string looks like that is put together of constants and of what is not known."""
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(map(_pattern, parts))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return _ANYTHING.join(map(re.escape, re.split(r"\{[^{}]*\}", text)))
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return _ANYTHING.join(map(re.escape, re.split(r"%[-+0-9.]*[a-z]", text)))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(left) + _pattern(right)
    return _ANYTHING


def mentions(tree: ast.AST, name: str) -> bool:
    """Whether anything reads it off another object than `self`, or may do so by a string.

    `"bn" in key` only asks, `("bn", nn.BatchNorm2d(8))` names a layer of another container, and what is read off
    `config`, as `config.dropout` and `config["dropout"]`, is a setting.
    """
    spelled = re.compile(rf"(?:[\w.]+\.)?{name}(?:\.[\w.]+)?")
    nodes = walk(tree)
    asked = {id(part) for node in nodes if isinstance(node, ast.Compare) for part in (node.left, *node.comparators)}
    naming = {id(n.elts[0]) for n in nodes if isinstance(n, ast.Tuple) and len(n.elts) == 2 and _makes(n.elts[1])}
    naming |= {id(key) for node in nodes for key in _keys_of_settings(node)}
    return any(
        (isinstance(node, ast.Attribute) and node.attr == name and last_name(node.value) not in {"self", *SETTINGS})
        or (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and spelled.fullmatch(node.value) is not None
            and id(node) not in asked | naming
        )
        for node in nodes
    )


def _keys_of_settings(node: ast.AST) -> list[ast.expr]:
    """What `config["dropout"]`, `config.get("dropout", 0.1)` and `{"dropout": 0.1}` call a setting."""
    match node:
        case ast.Subscript(value=owner, slice=key) if last_name(owner) in SETTINGS:
            return [key]
        case ast.Call(func=ast.Attribute(value=owner, attr="get" | "pop"), args=[key, *_]):
            return [key] if last_name(owner) in SETTINGS else []
        case ast.Dict(keys=keys, values=values):
            return [key for key, value in zip(keys, values, strict=True) if key and isinstance(value, ast.Constant)]
    return []


def _makes(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func)[:1].isupper()
