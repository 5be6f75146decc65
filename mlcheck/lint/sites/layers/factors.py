"""Products of two parameters of a module that both start at zero."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.layers.modules import PARAMETER
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites

_FILLS = pattern(r"(?:uniform|normal|orthogonal)_\(p(?:aram(?:eter)?)?\b")
_PRODUCTS = ("linear", "matmul", "mm", "bmm")
_TURNS = ("t", "transpose", "view", "reshape", "to", "type_as", "dropout", "lora_dropout")


def zero_product(sites: Sites, cls: Class, forward: Function) -> ast.AST | None:
    """What sets the first of two such parameters to zero: `nn.init.zeros_(self.A)`, or else where it is made."""
    zeros = {name: made for name in cls.attributes if (made := _made_of_zeros(sites, cls, name)) is not None}
    if len(zeros) < 2:
        return None
    for node in forward.nodes:
        if isinstance(node, ast.BinOp | ast.Call):
            found = [name for name in _factors(node) if name in zeros]
            if len(set(found)) > 1:
                return _zeroed(cls, found[0]) or zeros[found[0]]
    return None


def _made_of_zeros(sites: Sites, cls: Class, name: str) -> ast.AST | None:
    """`self.A = nn.Parameter(torch.zeros(...))`, or `nn.init.zeros_(self.A)`, and nothing else ever fills it."""
    sets = cls.attributes[name]
    made = sets[0][1].value if len(sets) == 1 else None
    given = made.args[0] if isinstance(made, ast.Call) and made.args else None
    context = sets[0][1].context
    if cls.file.resolve(getattr(made, "func", None), context) != PARAMETER or not isinstance(given, ast.Call):
        return None
    if cls.file.resolve(given.func, context) not in ("torch.zeros", "torch.zeros_like") and not _zeroed(cls, name):
        return None
    return sets[0][1].node if not sites.once(_fills_parameters) and not _is_named_elsewhere(sites, cls, name) else None


def _fills_parameters(sites: Sites) -> bool:
    """Whether anything fills whatever parameters there are."""
    return any(_FILLS.search(file.text) for file in sites.mentioning(["_(p"], tests=True))


def _is_named_elsewhere(sites: Sites, cls: Class, name: str) -> bool:
    """Whether anything but `forward`, the assignment and `zeros_(self.A)` speaks of it, or loads weights."""
    word, own = re.compile(rf"\.{name}\b"), cls.text
    forward = cls.methods["forward"]
    told = len(word.findall(forward.text)) + 1 + (_zeroed(cls, name) is not None)
    total = sum(len(word.findall(file.text)) for file in sites.mentioning([f".{name}"], tests=True))
    return total != told or any(
        text in own for text in ("load", ".apply(", "self.parameters()", "self.named_parameters()", "setattr")
    )


def _zeroed(cls: Class, name: str) -> ast.AST | None:
    """Where the class fills it with zeros, whatever it is made with."""
    for call in cls.file.calls("zeros_"):
        around = call.function.name if call.cls is cls and call.function is not None else ""
        if around and call.node.args and ast.unparse(call.node.args[0]) == f"self.{name}":
            runs = around == "__init__" or f"self.{around}(" in cls.text
            return call.node if runs and not conditions(call.context) else None
    return None


def _factors(node: ast.expr) -> list[str]:
    """The attributes of `self` that are factors of one product: A and B in `x @ self.A.T @ self.B.T`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult | ast.Mult):
        return _factors(node.left) + _factors(node.right)
    if isinstance(node, ast.Call) and last_name(node.func) in _PRODUCTS:
        return [name for arg in node.args[:2] for name in _factors(arg)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TURNS:
        owner = node.func.value
        inner = node.args[0] if "dropout" in node.func.attr and node.args else owner
        return _factors(inner)
    if isinstance(node, ast.Attribute):
        if is_name(node.value, "self"):
            return [node.attr]
        return _factors(node.value) if node.attr in ("T", "mT") else []
    return []
