"""Forward hooks that put the outputs of every batch, with their graphs, into a list that nobody empties."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_OUTPUT = 2


class HookedOutput(NamedTuple):
    """The line of the hook that keeps the output, the list, and the call that registers the hook."""

    file: File
    append: ast.Call
    kept: str
    registered: Call


def hooked_outputs(sites: Sites) -> Iterator[HookedOutput]:
    """`self.features.append(output)` of a hook that is never taken off a model that is trained."""
    for file in sites.mentioning(["register_forward_hook("]):
        if ".backward(" not in file.text or ".remove()" in file.text:
            continue
        for call in file.calls("register_forward_hook"):
            given = call.argument("hook", 0)
            for origin in origins(file, given, call.context) if given is not None and given is not OPEN else ():
                yield from _kept_by(call, origin.file, origin.node, origin.file.resolve(origin.node, origin.context))


def _kept_by(call: Call, file: File, node: ast.expr, named: object) -> Iterator[HookedOutput]:
    if isinstance(node, ast.Lambda):
        parameters, nodes = [arg.arg for arg in node.args.args], walk(node.body)
    elif isinstance(named, Function):
        parameters, nodes, file = [name for name in named.parameters if name != named.receiver], named.nodes, named.file
    else:
        return
    output = parameters[_OUTPUT] if len(parameters) > _OUTPUT else ""
    for each in nodes:
        match each:
            case ast.Call(func=ast.Attribute(value=kept, attr="append"), args=[value]) if output:
                name = last_name(kept.value if isinstance(kept, ast.Subscript) else kept)
                if _is_output(value, output) and name and not _is_emptied(file, name):
                    yield HookedOutput(file, each, ast.unparse(kept), call)


def _is_output(value: ast.expr, output: str) -> bool:
    """`output`, `output[0]` and `output.clone()`; not `output.detach()`."""
    while isinstance(value, ast.Subscript):
        value = value.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("clone", "cpu"):
        value = value.func.value
    return is_name(value, output)


def _is_emptied(file: File, name: str) -> bool:
    """Whether anything in the file empties the list, or puts another in its place."""
    begun = re.findall(
        rf"\b{name}\s*(?::[^=\n]+)?=\s*(?:\[|\{{|list\(|dict\(|(?:collections\.)?(?:deque|defaultdict)\()", file.text
    )
    emptied = rf"\b{name}(?:\[[^\]\n]*\])?(?:\.(?:clear|pop)\(|\s*=\s*\[)|del [\w.]*\b{name}\b"
    return len(begun) > 1 or len(re.findall(emptied, file.text)) > len(begun)
