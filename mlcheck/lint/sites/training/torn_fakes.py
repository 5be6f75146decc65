"""A judge that is to call the same detached pictures false in one loss and real in another, that of their maker."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_LOSS = pattern(r"loss|crit|bce|mse|cross_entropy|gan")
_ENDS = {"ones": 1, "ones_like": 1, "zeros": 0, "zeros_like": 0}


class TornFake(NamedTuple):
    """Where the judge is given what was detached, what it judges, and the two losses."""

    judged: Place
    fake: str
    wanted: Place
    other: Place


class _Verdict(NamedTuple):
    loss: ast.Call
    judge: ast.Call
    end: int


def torn_fakes(sites: Sites) -> Iterator[TornFake]:
    """`crit(judge(fake.detach()), zeros)`, and `crit(judge(fake.detach()), ones)`, where real pictures want ones."""
    for file in sites.mentioning([".detach()"]):
        for function in file.functions:
            if ".detach()" in function.text and "ones" in function.text and "zeros" in function.text:
                yield from _torn(function)


def _torn(function: Function) -> Iterator[TornFake]:
    verdicts = [verdict for call in function.all(ast.Call) if (verdict := _verdict(function, call)) is not None]
    of_fakes = [(_detached(each.judge), each) for each in verdicts]
    real = {(ast.unparse(each.judge.func), each.end) for fake, each in of_fakes if not fake}
    for fake, one in of_fakes:
        for other_fake, other in of_fakes:
            judge = ast.unparse(one.judge.func)
            same = fake and ast.unparse(one.judge) == ast.unparse(other.judge) and fake == other_fake
            if same and one.end != other.end and (judge, one.end) in real and (judge, other.end) not in real:
                yield TornFake(function.place(one.judge), fake, function.place(one.loss), function.place(other.loss))
                return


def _verdict(function: Function, call: ast.Call) -> _Verdict | None:
    """`F.mse_loss(d_fake, torch.ones_like(d_fake))`, with the call that gave `d_fake`."""
    if not _LOSS.search(last_name(call.func).lower()) or len(call.args) != 2:
        return None
    judge, target = (_made(function, arg) for arg in call.args)
    end = _ENDS.get(last_name(target.func)) if isinstance(target, ast.Call) else None
    return _Verdict(call, judge, end) if end is not None and isinstance(judge, ast.Call) and judge.args else None


def _made(function: Function, node: ast.expr) -> ast.expr:
    """What a name was given, by the only line that gives it anything."""
    if not isinstance(node, ast.Name):
        return node
    lines = [line for line in function.all(ast.Assign) if any(ast.unparse(each) == node.id for each in line.targets)]
    stores = [name for name in function.all(ast.Name) if name.id == node.id and isinstance(name.ctx, ast.Store)]
    return lines[0].value if len(lines) == len(stores) == 1 else node


def _detached(judge: ast.Call) -> str:
    """`fake` of `judge(fake.detach(), labels)`."""
    match judge.args[0]:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=fake), attr="detach"), args=[]):
            return fake
    return ""
