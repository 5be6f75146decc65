"""A model that is loaded before it is wrapped, and saved through the wrapper: the names no longer fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.weights.checkpoint_keys import keys_read, way_of
from mlcheck.lint.sites.weights.prefixes import unmoved

_WRAPPERS = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
_KNOWS = ('"module."', "'module.'", "consume_prefix", "[7:]")


class _Load(NamedTuple):
    """A load of the bare model: its key, and what else is read of that checkpoint.

    Where nothing else is, it may be another's file, which only has the weights in common with those written here.
    """

    wrap: Call
    load: Call
    key: str
    beside: frozenset[str]


def saved_wrapped(sites: Sites) -> Iterator[Finding]:
    """`net.load_state_dict(saved["net"])`, `net = DDP(net)`, and then `{"net": net.state_dict()}`."""
    loads = [found for wrap in sites.calls(*_WRAPPERS) for found in _loaded_before(wrap)]
    for file in sites.mentioning([".state_dict()"]) if loads else ():
        for key, state, others in _entries(file):
            fit = [each for each in loads if each.key == key and not others.isdisjoint(each.beside)]
            made = origins(file, state.owner, state.context) if fit and state.owner is not None else []
            if any(isinstance(origin.node, ast.Attribute) and origin.node.attr == "module" for origin in made):
                continue  # `bare = net.module if distributed else net`
            wraps = {id(unmoved(origin.node)) for origin in made}
            found = [(each.wrap, each.load) for each in fit if id(each.wrap.node) in wraps]
            if len(found) == 1 and _is_asked_after(state, found[0][0]) and not _is_renamed(state, found[0][1]):
                yield Finding(
                    "The wrapper puts `module.` before the names of its weights, and the model that loads them is not "
                    "wrapped yet: a resumed run ends here",
                    state.place.location,
                    help="ask the model inside: `model.module.state_dict()`",
                    related=tuple(call.place.location for call in found[0]),
                )


def _loaded_before(wrap: Call) -> Iterator[_Load]:
    """The loads of the bare model above its wrap, which takes its name, unless the wrapper loads too."""
    inner = wrap.argument("module", 0)
    if not isinstance(inner, ast.Name) or inner.id not in _names(wrap):
        return
    loads = [load for load in wrap.file.calls("load_state_dict") if is_name(load.owner, inner.id)]
    loads = [load for load in loads if load.context.scope is wrap.context.scope]
    if any(load.node.lineno > wrap.node.lineno for load in loads):
        return
    for load in loads:
        match load.node.args:
            case [ast.Subscript(value=ast.Name(id=saved), slice=ast.Constant(value=str(key)))]:
                if load.argument("strict", 1) is None:
                    yield _Load(wrap, load, key, frozenset(keys_read(way_of(load), saved)) - {key})


def _entries(file: File) -> Iterator[tuple[str, Call, frozenset[object]]]:
    """`"net": net.state_dict()` in a table, and the other keys of it."""
    contexts = dict(file.walk.calls.get("state_dict", ()))
    for table in walk(file.module.source.tree):
        pairs = list(zip(table.keys, table.values, strict=True)) if isinstance(table, ast.Dict) else []
        keys = frozenset(key.value for key, _ in pairs if isinstance(key, ast.Constant))
        for key, value in pairs:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Call):
                if value in contexts and isinstance(value.func, ast.Attribute):
                    yield key.value, Call(file, value, contexts[value]), keys - {key.value}


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
