"""Calls of `forward` on modules that something hangs hooks on, which only a call of the module itself runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_REGISTERS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")
_PRUNES = tuple(
    f"torch.nn.utils.prune.{name}"
    for name in ("l1_unstructured", "random_unstructured", "ln_structured", "random_structured", "custom_from_mask")
)
_NORMS = ("torch.nn.utils.spectral_norm", "torch.nn.utils.weight_norm")
"""Those of `torch.nn.utils.parametrizations` need no hook."""


class Skipped(NamedTuple):
    """The call of `forward`, and the one that hung the hook on the module; `keeps_weight`: that computes its weight."""

    call: Call
    hook: Call
    keeps_weight: bool


def skipped(sites: Sites) -> tuple[Skipped, ...]:
    """`sites.once(skipped)`."""
    calls = [call for file in sites.mentioning([".forward("]) for call in file.calls("forward")]
    return tuple(_skipped(sites, calls) if calls else ())


def _skipped(sites: Sites, calls: list[Call]) -> Iterator[Skipped]:
    hooked = dict(_hooked(sites))
    for call in calls if hooked else ():
        made = _made(call.file, call.owner, call.context)
        hooks = [hooked[node] for node in made if node in hooked]
        if hooks and len(hooks) == len(made):
            yield Skipped(call, hooks[0], last_name(hooks[0].node.func) not in _REGISTERS)


def _hooked(sites: Sites) -> Iterator[tuple[int, Call]]:
    """The calls that make the modules, by their nodes, with what hangs a hook on them for good."""
    for file in sites.mentioning(_REGISTERS):
        for call in file.calls(*_REGISTERS) if ".remove()" not in file.text else ():
            yield from ((node, call) for node in _made(file, call.owner, call.context))
    for call in sites.calls(*_PRUNES):
        given = call.argument("module", 0)
        if given is not None and given is not OPEN and "prune.remove(" not in call.file.text:
            yield from ((node, call) for node in _made(call.file, given, call.context))
    for call in sites.calls(*_NORMS):
        if "remove_spectral_norm" not in call.file.text and "remove_weight_norm" not in call.file.text:
            yield id(call.node), call


def _made(file: File, module: ast.expr | None, context: Context) -> list[int]:
    """The calls that may make a module; none where one of its origins is out of sight."""
    found = origins(file, module, context) if module is not None else []
    calls = [each for each in found if isinstance(each.node, ast.Call)]
    return [id(each.node) for each in calls] if len(calls) == len(found) else []
