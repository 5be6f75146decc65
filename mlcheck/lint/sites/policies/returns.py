"""Discounted returns that are summed from the first reward on, instead of from the last."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.model import Function

_REWARD = pattern(r"^(?:r|rew|rews|rewards?)(?:_?(?:t|list|buf|buffer|batch))?$")
_DISCOUNT = pattern(r"gamma|discount(?!ed)")
_BACKWARDS = ("reversed(", "::-1", ".reverse(", "flip(", "flipud(", "flip_", "- 1 - ", "-1, -1")


class Forwards(NamedTuple):
    """A loop over rewards, first to last, and the line that discounts what has come before."""

    loop: ast.For
    line: ast.Assign


def summed_forwards(function: Function) -> Iterator[Forwards]:
    """`for r in rewards: R = r + gamma * R; returns.insert(0, R)`."""
    if any(word in function.text for word in _BACKWARDS):
        return
    for loop in function.all(ast.For):
        if not any(_REWARD.search(last_name(part).lower()) for part in walk(loop.iter)):
            continue
        items = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
        for line in loop.body:
            name = _discounted(line, items)
            if name and isinstance(line, ast.Assign) and _is_kept(loop, line, name):
                yield Forwards(loop, line)


def _discounted(line: ast.stmt, items: set[str]) -> str:
    """`R` of `R = r + gamma * R`, where `r` is what the loop gives."""
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=ast.Add(), right=right)):
            pass
        case _:
            return ""
    for reward, rest in ((left, right), (right, left)):
        product = isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Mult)
        parts = walk(rest) if product else []
        earlier = any(is_name(part, name) for part in parts)
        if earlier and isinstance(reward, ast.Name) and reward.id in items and reward.id != name:
            if any(_DISCOUNT.search(last_name(part).lower()) for part in parts):
                return name
    return ""


def _is_kept(loop: ast.For, line: ast.Assign, name: str) -> bool:
    """Whether each step puts its sum before those of the steps before: then the loop was meant to go backwards."""
    for statement in loop.body[loop.body.index(line) + 1 :]:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="insert"), args=[ast.Constant(value=0), kept])):
                return any(is_name(part, name) for part in walk(kept))
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[kept])):
                return is_name(kept, name)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="appendleft"), args=[kept])):
                return is_name(kept, name)
    return False
