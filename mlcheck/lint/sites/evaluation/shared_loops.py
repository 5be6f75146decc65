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
_SWITCHES = pattern(r"\.train\([^)]|\.training\b|train_mode|set_mode|no_mode")


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
    tests = [(node, *_asked(node.test)) for node in function.nodes if isinstance(node, ast.If)]
    for asked, name, split, equal in tests:
        if not equal or split != "train" or name not in function.parameters or asked.orelse:
            continue
        if not _learns(function, asked) or not _switches_for_others_alone(function, name):
            continue
        others = {other for _, asks, other, _ in tests if asks == name} | _gone_through(function.file.sites, name)
        others &= _HELD_OUT
        for line in straight(function.node.body):
            model = _put_into_train_mode(line) if others else None
            if model is not None:
                places = [function.place(each) for each in (line, asked)]
                yield InTrainMode(places[0], ast.unparse(model), places[1], min(others))
                return


def _put_into_train_mode(line: ast.stmt) -> ast.expr | None:
    """`model` of `model.train()` and of `model = model.train()`."""
    match line:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=model, attr="train"), args=[])):
            return model
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(value=model, attr="train"), args=[])):
            return model if ast.unparse(target) == ast.unparse(model) else None
    return None


def _asked(test: ast.expr) -> tuple[str, str, bool]:
    """`mode` and "train" of `mode == "train"` and of `mode != "train"`, and whether it asks for that."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant()]):
            asked = test.comparators[0]
            if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
                return name, asked.value.lower(), isinstance(op, ast.Eq)
    return "", "", False


def _switches_for_others_alone(function: Function, name: str) -> bool:
    """Whether `eval()` stands only where something else is asked for than training or a split that is held out."""
    allowed = set[ast.AST]()
    for node in function.all(ast.If):
        asks, what, equal = _asked(node.test)
        if asks == name and what not in (_HELD_OUT | {"train"}):
            allowed |= {part for line in (node.body if equal else node.orelse) for part in walk(line)}
    return all(node in allowed for node in function.all(ast.Attribute) if node.attr == "eval")


def _gone_through(sites: Sites, name: str) -> set[str]:
    """What a loop of the program goes through by that name: `for phase in ["train", "valid"]`."""
    found = set[str]()
    for file in sites.mentioning([f"for {name} in"]):
        for loop, _ in file.walk.loops:
            match loop:
                case ast.For(target=ast.Name(id=held), iter=ast.List(elts=parts) | ast.Tuple(elts=parts)):
                    values = {part.value for part in parts if isinstance(part, ast.Constant)} if held == name else set()
                    found |= {value for value in values if isinstance(value, str)} if "train" in values else set()
    return found


def _learns(function: Function, branch: ast.If) -> bool:
    """Whether this branch alone goes backward."""
    backward = [n for n in function.nodes if isinstance(n, ast.Attribute) and n.attr in ("backward", "manual_backward")]
    inside = {part for line in branch.body for part in walk(line)}
    return bool(backward) and inside.issuperset(backward)
