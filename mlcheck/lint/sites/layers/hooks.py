"""Forward hooks, whose results take the place of those of the modules they hang on."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_none
from mlcheck.lint.sites.model import OPEN, Function
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.project import Sites


def hooked(sites: Sites) -> bool:
    """Whether a hook of the program may change what a module returns; `sites.once(hooked)`."""
    for file in sites.mentioning(["register_forward_hook("]):
        for call in file.calls("register_forward_hook"):
            given = call.argument("hook", 0)
            if given is None or given is OPEN:
                continue
            for origin in origins(file, given, call.context):
                if isinstance(origin.node, ast.Lambda) and file.called(origin.node.body, call.context):
                    return True
                hook = origin.file.resolve(origin.node, origin.context)
                if isinstance(hook, Function) and any(not is_none(value) for value in returns(hook)):
                    return True
    return False
