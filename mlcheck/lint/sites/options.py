"""Options of a command line, and what they are where nobody gives them."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context

_PARSES = ("parse_args", "parse_known_args")


def by_default(file: File, node: ast.expr | None, context: Context) -> object:
    """What an expression comes to if no option is given; UNKNOWN where the text does not tell, or tells several."""
    if node is None or node is OPEN:
        return UNKNOWN
    found = [_of(origin.file, origin.node, origin.context) for origin in origins(file, node, context)]
    return found[0] if len(found) == 1 else UNKNOWN


def _of(file: File, node: ast.expr, context: Context) -> object:
    known = file.constant(node, context)
    if known is not UNKNOWN or not isinstance(node, ast.Attribute):
        return known
    parsed = origins(file, node.value, context)
    if not parsed or not all(is_parsed(origin.node) for origin in parsed):
        return UNKNOWN
    files = file.sites.mentioning(["add_argument"])
    made = [call for each in files for call in each.calls("add_argument") if name_of_option(call) == node.attr]
    return made[0].constant("default", None, UNKNOWN) if len(made) == 1 else UNKNOWN


def is_parsed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _PARSES


def name_of_option(call: Call) -> str:
    """`batch_size` of `add_argument("-b", "--batch-size")`, or what `dest` says."""
    given = [arg.value for arg in call.node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    long = next((name for name in given if name.startswith("--")), given[0] if given else "")
    chosen = call.constant("dest", None, long)
    return chosen.lstrip("-").replace("-", "_") if isinstance(chosen, str) else ""
