"""Options of a command line, fields of a settings class, and what they are where nobody gives them."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.changing import changed
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.settings import entries

_PARSES = ("parse_args", "parse_known_args")
_SWITCHES = {"store_true": True, "store_false": False}


def by_default(file: File, node: ast.expr | None, context: Context) -> object:
    """What an expression comes to if no option is given; UNKNOWN where the text does not tell, or tells several."""
    if node is None or node is OPEN:
        return UNKNOWN
    found = [_of(origin.file, origin.node, origin.context) for origin in origins(file, node, context)]
    return _common(found)


def _of(file: File, node: ast.expr, context: Context) -> object:
    known = file.constant(node, context)
    if known is not UNKNOWN or not isinstance(node, ast.Attribute):
        return known
    owners = origins(file, node.value, context)
    if not owners or not all(is_parsed(owner.node) for owner in owners):
        return _common([_field(owner, node.attr) for owner in owners])
    files = file.sites.mentioning(["add_argument"])
    made = [call for each in files for call in each.calls("add_argument") if name_of_option(call) == node.attr]
    return made[0].constant("default", None, UNKNOWN) if len(made) == 1 else UNKNOWN


def _common(found: list[object]) -> object:
    return found[0] if found and all(each == found[0] for each in found) else UNKNOWN


def _field(owner: Origin, name: str) -> object:
    """What `config.rate` is, where `config` is made in sight, or said to be `Config` by who is given it."""
    file, node, context, *_ = owner
    bound = file.bindings(node.id, context) if isinstance(node, ast.Name) else []
    said = next((each.node.annotation for each in bound if isinstance(each.node, ast.arg)), None)
    held = entries(file, said or node, context) if name not in file.sites.once(changed)[0] else None
    found = held.get(name) if held is not None else None
    return found.file.constant(found.node, found.context) if found is not None else UNKNOWN


def is_parsed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _PARSES


def name_of_option(call: Call) -> str:
    """`batch_size` of `add_argument("-b", "--batch-size")`, or what `dest` says."""
    given = [arg.value for arg in call.node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    long = next((name for name in given if name.startswith("--")), given[0] if given else "")
    chosen = call.constant("dest", None, long)
    return chosen.lstrip("-").replace("-", "_") if isinstance(chosen, str) else ""


def fixed(sites: Sites) -> dict[str, bool]:
    """The switches that no word turns: `add_argument("--skip", action="store_true", default=True)`, and none beside."""
    found: dict[str, set[bool | None]] = {}
    for file in sites.mentioning(["add_argument"]):
        if "set_defaults" in file.text:
            return {}
        for call in file.calls("add_argument"):
            turns = _SWITCHES.get(str(call.constant("action")))
            stays = turns is not None and call.constant("default") is turns
            found.setdefault(name_of_option(call), set()).add(turns if stays else None)
    return {name: value for name, values in found.items() if len(values) == 1 for value in values if value is not None}
