"""Clipping by a hook of each parameter, which sees gradients while they are multiplied by the loss scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_CUTS = pattern(r"clamp|clip")
_SCALED = pattern(r"scaler\w*\.(?:scale|step)\(")


def hooked_clips(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """The call that puts the hooks in place, beside a backward pass of a scaled loss, and the hook itself."""
    for file in sites.mentioning(["register_hook"]):
        for hook in file.calls("register_hook"):
            if not _is_of_parameter(hook) or not _cuts(hook):
                continue
            above = list(callers(sites, hook.function)) if hook.function is not None else []
            for place in above or [hook]:
                around = place.cls or place.function
                if _SCALED.search(around.text if around is not None else place.file.text):
                    yield place, hook


def _is_of_parameter(hook: Call) -> bool:
    """`p.register_hook(...)` in a loop over the parameters of a model."""
    bound = hook.file.bindings(hook.owner.id, hook.context) if isinstance(hook.owner, ast.Name) else []
    loops = [each.node for each in bound if isinstance(each.node, ast.For)]
    return bool(bound) and len(loops) == len(bound) and all("parameters()" in ast.unparse(each.iter) for each in loops)


def _cuts(hook: Call) -> bool:
    """`lambda grad: torch.clamp(grad, -1, 1)`."""
    given = hook.node.args[0] if hook.node.args else None
    if not isinstance(given, ast.Lambda) or len(given.args.args) != 1:
        return False
    made, gradient = given.body, given.args.args[0].arg
    if not isinstance(made, ast.Call) or not _CUTS.search(last_name(made.func)):
        return False
    return any(is_name(part, gradient) for part in walk(made))
