"""One number written into all parameters of a model."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import UNKNOWN, Call

FILLS = ("zeros_", "ones_", "constant_")
INITS = tuple(f"torch.nn.init.{name}" for name in FILLS)
_TRAINS = pattern(r"train|fit|step|backward|main|run")


def fills_all(call: Call) -> bool:
    """`for p in net.parameters(): nn.init.constant_(p, 0.1)`, `p.data.fill_(0.1)`."""
    func, named = call.node.func, call.file.resolve(call.node.func, call.context)
    if call.function is not None and "zero" in call.function.name:  # such as ControlNet's `zero_module`
        return False
    loop = call.loops[0].node if call.loops else None
    if not isinstance(loop, ast.For) or not ast.unparse(loop.iter).endswith((".parameters()", ".named_parameters()")):
        return False
    if "[" in ast.unparse(loop.iter):  # one layer of several, such as the last
        return False
    if isinstance(named, str) and canonical(named) in INITS and call.node.args:
        filled: ast.expr = call.node.args[0]
    elif isinstance(func, ast.Attribute) and func.attr == "fill_" and call.constant("value", 0) not in (0, UNKNOWN):
        filled = func.value
    else:
        return False
    filled = filled.value if isinstance(filled, ast.Attribute) and filled.attr == "data" else filled
    last = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
    chosen = any(outer.kind in ("if", "try") for outer in call.context.outwards() if outer.outer is not None)
    if not isinstance(filled, ast.Name) or not isinstance(last, ast.Name) or filled.id != last.id or chosen:
        return False
    return not _is_shown(call, loop)


def _is_shown(call: Call, loop: ast.For) -> bool:
    """Whether the same parameters are filled over and over, or the model only runs in eval mode afterwards."""
    file, over = call.file, ast.unparse(loop.iter)
    nodes = call.function.nodes if call.function is not None else file.nodes_in(file.module.source.tree)
    again = [node for node in nodes if isinstance(node, ast.For) and ast.unparse(node.iter) == over]
    if len([node for node in again if re.search(r"\b(?:fill|constant|ones|zeros)_\(", ast.unparse(node))]) > 1:
        return True
    later = [node for node in nodes if getattr(node, "lineno", 0) > (loop.end_lineno or 0)]
    words = {last_name(node.func) for node in later if isinstance(node, ast.Call)}
    return "eval" in words and not any(_TRAINS.search(word) for word in words)
