"""Layers that no module holds, and that somebody trains, moves or registers one by one."""

import ast
import re

from mlcheck.lint.nodes import is_attribute, last_name, walk
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites

_TAKES = r"\.(?:parameters|named_parameters|state_dict|train|eval|load_state_dict)\("


def is_handled(sites: Sites, name: str) -> bool:
    """Whether somebody trains or moves the contents by hand: `for layer in net.layers: layer.parameters()`."""
    loop = re.compile(rf"for\b[^\n]*?(\w+)\)? in [^\n]*\.{re.escape(name)}\b")
    for file in sites.mentioning([name], tests=True):
        if re.search(rf"\.{re.escape(name)}\b[^\n]*{_TAKES}", file.text):
            return True
        if any(re.search(rf"\b{found}{_TAKES}", file.text) for found in set(loop.findall(file.text))):
            return True
    return False


def is_strung_together(cls: Class, name: str) -> bool:
    """`for layer, act in zip(self.layers, acts): steps.append(layer)`, and `nn.Sequential(*steps)` in that method."""
    for method in cls.methods.values():
        for loop in method.all(ast.For) if re.search(r"(?:Sequential|ModuleList)\(", method.text) else ():
            if any(is_attribute(part, method.receiver, name) for part in walk(loop.iter)):
                brought = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
                if any(isinstance(node, ast.Call) and _takes_in(node, brought) for node in walk(loop)):
                    return True
    return False


def _takes_in(call: ast.Call, names: set[str]) -> bool:
    """A list that grows by one of the names, or a class that is given it."""
    called = last_name(call.func)
    given = [*call.args, *(word.value for word in call.keywords)]
    named = any(isinstance(each, ast.Name) and each.id in names for each in given)
    return named and (called in ("append", "insert") or called[:1].isupper())


def is_handed_out(cls: Class, name: str) -> bool:
    """Whether a method gives single ones away: `return [self.parts[0]]`, or `Attend(shared=self.parts[0])`."""
    methods = (method for base in cls.line for method in base.methods.values() if method.name != "forward")
    return any(_is_one_of(given, method, name) for method in methods for given in _given_away(method))


def _given_away(method: Function) -> list[ast.expr]:
    returned = [node.value for node in method.nodes if isinstance(node, ast.Return)]
    listed = [part for node in returned if isinstance(node, ast.List) for part in node.elts]
    named = [word.value for node in method.nodes if isinstance(node, ast.Call) for word in node.keywords]
    return listed + named


def _is_one_of(node: ast.expr, method: Function, name: str) -> bool:
    return isinstance(node, ast.Subscript) and is_attribute(node.value, method.receiver, name)
