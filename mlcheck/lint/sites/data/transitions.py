"""The transitions that an agent learns from: as a replay memory gets them, and hands them out by keys or fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

DONE = pattern(
    r"^(?:b_|batch_)?(?:dones?|terminals?|is_?done|terminated|not_?dones?|dw)(?:_?(?:batch|tensor|t|b|mask))?$"
)
_ALL = pattern(r"\*\*\w*(?:batch|sample|transition)|\.values\(\)|\.items\(\)")
_TUPLES = ("collections.namedtuple", "typing.NamedTuple")
_PUTS = ("add", "append", "push", "put", "remember", "store", "store_transition", "memorize", "cache", "insert")
_FEWEST = 3


def unread_done(sites: Sites, reward: str) -> tuple[str, Place | None]:
    """What tells the end of an episode beside that reward, where nothing in the program ever reads it."""
    for file, node, context, keys in sites.once(_records):
        done = next((key for key in keys if DONE.search(key.lower())), "") if reward in keys else ""
        if done and not any(_is_read(other, done) for other in sites.mentioning([done], tests=True)):
            return done, file.place(node, context)
    return "", None


def stored_without_end(near: File) -> tuple[str, Place | None]:
    """`done` of `state2, reward, done, info = env.step(action)`, and the `memory.add((state, action, reward, state2))`.

    Of this file, or of all where it stores none. Nothing where any is stored with what `done` decides.
    """
    own = list(_stored(near))
    found: tuple[str, Place | None] = ("", None)
    for put, after, done in own or chain.from_iterable(map(_stored, near.sites.mentioning([".step("]))):
        told = {done, *_decided(put, done)}
        around = {name.id for test in conditions(put.context) for name in walk(test) if isinstance(name, ast.Name)}
        if told & (around | {part.id for part in walk(put.node) if isinstance(part, ast.Name)}) or after in told:
            return "", None
        found = found if found[0] else (done, put.place)
    return found


def _stored(file: File) -> Iterator[tuple[Call, str, str]]:
    """The calls that put a transition away, with its next state, and the flag that came with that."""
    for step in file.calls("step"):
        given = {
            bound.item: name
            for name, bounds in step.context.scope.bindings.items()
            for bound in bounds
            if bound.kind == "item" and bound.value is step.node
        }
        after, done = given.get(0, ""), given.get(2, "")
        if not after or not DONE.search(done.lower()):
            continue
        for put in file.calls(*_PUTS):
            if put.function is step.function and len(parts := _parts(put.node)) >= _FEWEST:
                if any(isinstance(part, ast.Name) and part.id == after for part in parts):
                    yield put, after, done


def _parts(put: ast.Call) -> list[ast.expr]:
    """The arguments of a call, or the elements of the one tuple or list among them."""
    first = put.args[0] if len(put.args) == 1 and not put.keywords else None
    parts = first.elts if isinstance(first, ast.Tuple | ast.List) else put.args
    return [*parts, *(word.value for word in put.keywords)]


def _decided(put: Call, done: str) -> Iterator[str]:
    """The names that are bound from it above, or under a condition about it: `mask = 0.0 if done else 1.0`."""
    around = put.function.nodes if put.function is not None else list(walk(put.file.module.source.tree))
    for node in around:
        if getattr(node, "lineno", put.node.lineno) >= put.node.lineno:
            continue
        if isinstance(node, ast.If) and any(last_name(part) == done for part in walk(node.test)):
            lines = [line for line in walk(node) if isinstance(line, ast.Assign | ast.AugAssign)]
        elif isinstance(node, ast.Assign | ast.AugAssign) and any(last_name(part) == done for part in walk(node.value)):
            lines = [node]
        else:
            continue
        for line in lines:
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            yield from (part.id for target in targets for part in walk(target) if isinstance(part, ast.Name))


def _is_read(file: File, key: str) -> bool:
    """Whether an entry or a field of that name is asked for, or all of them at once."""
    read = (
        rf"""\[["']{key}["']\]|\(["']{key}["']|\.{key}\b|\*\*\w*(?:batch|sample|transition)|\.values\(\)|\.items\(\)"""
    )
    return re.search(read, file.text) is not None


def _records(sites: Sites) -> list[tuple[File, ast.AST, Context, list[str]]]:
    """The tables that functions return, and the named tuples, with their keys."""
    return [found for file in sites.mentioning(["rew"]) for found in (*_returned(file), *_tuples(file))]


def _returned(file: File) -> Iterator[tuple[File, ast.AST, Context, list[str]]]:
    """`return {"reward": r, "done": d}`."""
    for function in file.functions:
        for line in function.all(ast.Return) if "rew" in function.text else ():
            table = line.value
            if isinstance(table, ast.Dict):
                keys = [key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                if len(keys) == len(table.keys):
                    yield file, table, function.inner, keys


def _tuples(file: File) -> Iterator[tuple[File, ast.AST, Context, list[str]]]:
    """`Transition = namedtuple("Transition", ["state", "reward", "done"])`."""
    for call in file.calls("namedtuple"):
        if call.file.called(call.node, call.context) in _TUPLES and len(call.node.args) == 2:
            match call.node.args[1]:
                case ast.List(elts=parts) | ast.Tuple(elts=parts):
                    keys = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
                case ast.Constant(value=str(text)):
                    keys = text.replace(",", " ").split()
                case _:
                    keys = []
            yield file, call.node, call.context, keys
