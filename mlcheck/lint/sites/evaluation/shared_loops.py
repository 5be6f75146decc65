"""One function for training and evaluation, told by an argument which of them it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_HELD_OUT = frozenset(["val", "valid", "validation", "test", "eval", "dev"])
_SWITCHES = pattern(r"\.eval\(|\.train\([^)]|\.training\b|train_mode|set_mode|no_mode")


class InTrainMode(NamedTuple):
    """Where the model is put into train mode whatever is asked for, its name, and where training is told apart."""

    switch: Place
    model: str
    told: Place
    split: str


def always_in_train_mode(sites: Sites) -> Iterator[InTrainMode]:
    """`model.train()` at the head of `def run(loader, mode)`, where only `if mode == "train"` goes backward."""
    for file in sites.mentioning([".train()"]):
        if ".backward(" in file.text:
            for function in file.functions:
                if ".train()" in function.text and not _SWITCHES.search(function.text):
                    yield from _in(function)


def _in(function: Function) -> Iterator[InTrainMode]:
    tests = [(node, _asked(node.test)) for node in function.nodes if isinstance(node, ast.If)]
    for asked, (name, split) in tests:
        if split != "train" or name not in function.parameters or asked.orelse or not _learns(function, asked):
            continue
        others = sorted({other for _, (asks, other) in tests if asks == name and other in _HELD_OUT})
        for line in straight(function.node.body):
            match line:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=model, attr="train"), args=[])) if others:
                    places = [function.place(each) for each in (line, asked)]
                    yield InTrainMode(places[0], ast.unparse(model), places[1], others[0])
                    return


def _asked(test: ast.expr) -> tuple[str, str]:
    """`mode` and "train" of `mode == "train"`."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=str(split))]):
            return name, split.lower()
    return "", ""


def _learns(function: Function, branch: ast.If) -> bool:
    """Whether this branch alone goes backward."""
    backward = [n for n in function.nodes if isinstance(n, ast.Attribute) and n.attr in ("backward", "manual_backward")]
    inside = {part for line in branch.body for part in walk(line)}
    return bool(backward) and inside.issuperset(backward)
