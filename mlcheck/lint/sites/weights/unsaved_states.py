"""States that a resumed run asks a checkpoint for, and that nothing in the project ever puts into one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, stores_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_ALIKE = 2  # keys that a checkpoint must share with what is read from it to be the one that is read


class Saved(NamedTuple):
    """A dictionary that is saved, all of whose keys are written out; `states` are those of `x.state_dict()`."""

    place: Place
    keys: frozenset[str]
    states: frozenset[str]


def unsaved_states(sites: Sites) -> Iterator[tuple[Saved, str, Place]]:
    """`optimizer.load_state_dict(state["optimizer"])`, of a dictionary that is saved without: it, the key, the read."""
    tables = sites.once(_saved)
    for file in tables:
        for call in file.calls("load_state_dict"):
            name, key = _read(call)
            if not key or _is_optional(call.context):
                continue
            asked = _keys_of(call, name) if _is_loaded(file, name, call.context) else set()
            alike = [each for each in tables[file] if len(each.keys & asked) >= _ALIKE and key not in each.keys]
            if alike and _is_only_read(sites, key):
                yield alike[0], key, call.place


def asked_by_other_names(sites: Sites) -> Iterator[tuple[Place, str, Saved, str]]:
    """`if "model" in state: net.load_state_dict(state["model"])`, of a dictionary that keeps it as `"net"`.

    The read and its key, the dictionary, and the key that nothing reads.
    """
    tables = sites.once(_saved)
    for file in tables:
        for call in file.calls("load_state_dict"):
            name, key = _read(call)
            if not key:
                name, key = _got(call)
            if not key or not _is_asked_for(call, name, key) or not _is_loaded(file, name, call.context):
                continue
            asked = _keys_of(call, name)
            alike = [each for each in tables[file] if len(each.keys & asked) >= _ALIKE and key not in each.keys]
            others = [(each, word) for each in alike for word in sorted(each.states - asked)]
            unread = [(each, word) for each, word in others if _is_never_read(sites, word)]
            if unread and _is_only_read(sites, key):
                yield call.place, key, *unread[0]


def _got(call: Call) -> tuple[str, str]:
    """`state` and `model` of `net.load_state_dict(weights)`, where `weights = state.get("model")`."""
    given = call.node.args[0] if len(call.node.args) == 1 else None
    match source(call.file, given, call.context)[0] if isinstance(given, ast.Name) else None:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key))]):
            return name, key
    return "", ""


def _is_asked_for(call: Call, name: str, key: str) -> bool:
    """Whether the one condition around is `"key" in name`, or asks whether there is what is loaded."""
    tests = [outer.node.test for outer in call.context.outwards() if isinstance(outer.node, ast.If)]
    match tests:
        case [ast.Compare(left=ast.Constant(value=asked), ops=[ast.In()], comparators=[ast.Name(id=table)])]:
            return asked == key and table == name
        case [ast.Compare(left=ast.Name(id=held), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)])]:
            return is_name(call.node.args[0], held)
        case [ast.Name(id=held)]:
            return is_name(call.node.args[0], held)
    return False


def _is_never_read(sites: Sites, key: str) -> bool:
    """Whether the word stands in quotes only where a dictionary is written out."""
    word = re.escape(key)
    texts = [file.text for file in sites.mentioning([key], tests=True)]
    quoted = sum(len(re.findall(rf"[\"']{word}[\"']", text)) for text in texts)
    written = sum(len(re.findall(rf"[{{,\s][\"']{word}[\"']\s*:", text)) for text in texts)
    return quoted == written


def _saved(sites: Sites) -> dict[File, list[Saved]]:
    """The dictionaries that `torch.save` gets, by the file that they are written in."""
    found: dict[File, list[Saved]] = {}
    for save in sites.calls("torch.save"):
        for origin in origins(save.file, save.node.args[0], save.context) if save.node.args else ():
            keys = origin.node.keys if isinstance(origin.node, ast.Dict) else []
            words = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            if words and len(words) == len(keys):
                place = origin.file.place(origin.node, origin.context)
                values = origin.node.values if isinstance(origin.node, ast.Dict) else []
                states = [word for word, value in zip(words, values, strict=True) if _is_state(value)]
                found.setdefault(origin.file, []).append(Saved(place, frozenset(words), frozenset(states)))
    return found


def _is_state(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) == "state_dict"


def _read(call: Call) -> tuple[str, str]:
    """`state` and `optimizer` of `optimizer.load_state_dict(state["optimizer"])`."""
    match call.node.args:
        case [ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)))]:
            return name, key
    return "", ""


def _is_optional(context: Context) -> bool:
    """Whether a condition of its own or a `try` stands around: a checkpoint without may come."""
    return any(
        outer.kind == "try" or (isinstance(outer.node, ast.If) and "in" in ast.unparse(outer.node.test).split())
        for outer in context.outwards()
    )


def _is_loaded(file: File, name: str, context: Context) -> bool:
    """Whether all that the name may be is what `torch.load` read."""
    bound = file.bindings(name, context)
    return bool(bound) and all(
        isinstance(each.value, ast.expr) and file.called(each.value, each.context) == "torch.load" for each in bound
    )


def _keys_of(call: Call, name: str) -> set[str]:
    """The keys that are read from what the name holds there, until it is bound anew."""
    around = call.function.node if call.function is not None else call.file.module.source.tree
    bound = [node.lineno for node in stores_of(walk(around), name)]
    first = max((line for line in bound if line <= call.node.lineno), default=0)
    last = min((line for line in bound if line > call.node.lineno), default=None)
    return {
        node.slice.value
        for node in walk(around)
        if isinstance(node, ast.Subscript)
        and is_name(node.value, name)
        and first <= node.lineno
        and (last is None or node.lineno < last)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }


def _is_only_read(sites: Sites, key: str) -> bool:
    """Whether the word stands nowhere in quotes, nor as a name in a `dict(...)`, but where a key is read.

    Of the files that deal with states: elsewhere it is a word of a configuration.
    """
    word = re.escape(key)
    quoted = re.compile(rf"[\"']{word}[\"']")
    read = re.compile(
        rf"\w\[\s*[\"']{word}[\"']\s*\](?!\s*=(?!=))|[\"']{word}[\"'] (?:not )?in \w|\.get\([\"']{word}[\"']\)"
    )
    named = re.compile(rf"\bdict\([^)]*\b{word}\s*=|\b(?:setattr|update|save\w*)\([^)]*\b{word}\s*=", re.DOTALL)
    texts = [file.text for file in sites.mentioning([key], tests=True) if "state_dict" in file.text]
    return not any(named.search(text) or len(quoted.findall(text)) != len(read.findall(text)) for text in texts)
