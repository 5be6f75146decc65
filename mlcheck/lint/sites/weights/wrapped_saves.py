"""A model that is loaded before it is wrapped, and saved through the wrapper: the names no longer fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.weights.prefixes import unmoved

_WRAPPERS = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
_KNOWS = ('"module."', "'module.'", "consume_prefix", "[7:]")


def saved_wrapped(sites: Sites) -> Iterator[Finding]:
    """`net.load_state_dict(saved["net"])`, `net = DDP(net)`, and then `{"net": net.state_dict()}`."""
    loads = [found for wrap in sites.calls(*_WRAPPERS) for found in _loaded_before(wrap)]
    for file in sites.mentioning([".state_dict()"]) if loads else ():
        states = [(key, state) for key, state in _entries(file) if any(key == loaded for _, loaded, _ in loads)]
        for key, state in states:
            made = origins(file, state.owner, state.context) if state.owner is not None else []
            wraps = {id(unmoved(origin.node)) for origin in made}
            found = [(wrap, load) for wrap, loaded, load in loads if loaded == key and id(wrap.node) in wraps]
            if len(found) == 1 and _is_asked_after(state, found[0][0]) and not _is_renamed(state, found[0][1]):
                yield Finding(
                    "The wrapper puts `module.` before the names of its weights, and the model that loads them is not "
                    "wrapped yet: a resumed run ends here",
                    state.place.location,
                    help="ask the model inside: `model.module.state_dict()`",
                    related=tuple(call.place.location for call in found[0]),
                )


def _loaded_before(wrap: Call) -> Iterator[tuple[Call, str, Call]]:
    """The loads of the bare model above its wrap, which takes its name, with the keys that they read."""
    inner = wrap.argument("module", 0)
    if not isinstance(inner, ast.Name) or inner.id not in _names(wrap):
        return
    for load in wrap.file.calls("load_state_dict"):
        match load.node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=inner.id)), args=[ast.Subscript(slice=ast.Constant(value=key))]
            ) if load.context.scope is wrap.context.scope and load.node.lineno < wrap.node.lineno:
                if isinstance(key, str) and load.argument("strict", 1) is None:
                    yield wrap, key, load


def _entries(file: File) -> Iterator[tuple[str, Call]]:
    """`"net": net.state_dict()` in a table."""
    contexts = dict(file.walk.calls.get("state_dict", ()))
    for table in walk(file.module.source.tree):
        pairs = zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
        for key, value in pairs:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Call):
                if value in contexts and isinstance(value.func, ast.Attribute):
                    yield key.value, Call(file, value, contexts[value])


def _is_asked_after(state: Call, wrap: Call) -> bool:
    """Whether the wrap, which may be that of one branch, is what the name means where the state is asked for."""
    if state.context.scope is not wrap.context.scope:
        return True
    return state.node.lineno > wrap.node.lineno and any(is_name(state.owner, name) for name in _names(wrap))


def _is_renamed(state: Call, load: Call) -> bool:
    """Whether a text on the way from the save to the load speaks of the prefix."""
    saved = load.node.args[0]
    given = origins(load.file, saved.value, load.context) if isinstance(saved, ast.Subscript) else []
    files = {state.file, load.file, *(origin.file for origin in given)}
    return any(word in file.text for file in files for word in _KNOWS)


def _names(wrap: Call) -> tuple[str, ...]:
    """The names of `net = DDP(net)`, and of `net = DDP(net).to(device)`."""
    nodes = wrap.function.nodes if wrap.function is not None else walk(wrap.file.module.source.tree)
    lines = (node for node in nodes if isinstance(node, ast.Assign) and unmoved(node.value) is wrap.node)
    return tuple(target.id for line in lines for target in line.targets if isinstance(target, ast.Name))
