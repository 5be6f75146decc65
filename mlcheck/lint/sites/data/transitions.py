"""The transitions that an agent learns from, as a replay memory hands them out: by keys or by fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

DONE = pattern(
    r"^(?:b_|batch_)?(?:dones?|terminals?|is_?done|terminated|not_?dones?|dw)(?:_?(?:batch|tensor|t|b|mask))?$"
)
_ALL = pattern(r"\*\*\w*(?:batch|sample|transition)|\.values\(\)|\.items\(\)")
_TUPLES = ("collections.namedtuple", "typing.NamedTuple")


def unread_done(sites: Sites, reward: str) -> tuple[str, Place | None]:
    """What tells the end of an episode beside that reward, where nothing in the program ever reads it."""
    for file, node, context, keys in sites.once(_records):
        done = next((key for key in keys if DONE.search(key.lower())), "") if reward in keys else ""
        if done and not any(_is_read(other, done) for other in sites.mentioning([done], tests=True)):
            return done, file.place(node, context)
    return "", None


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
