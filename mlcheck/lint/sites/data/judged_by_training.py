"""Functions that are given held-out data, and run their evaluation over the training data instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_length, is_name, last_name, walk
from mlcheck.lint.sites.data.other_split import stem
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Function
from mlcheck.lint.values import split_of_name

_AROUND = ("enumerate", "tqdm", "track", "iter", "zip", "trange")
_TESTS = ("isinstance", "hasattr", "len", "bool")


class Judged(NamedTuple):
    """What an evaluation goes over, the data that it was given for that, and where."""

    over: str
    unread: str
    place: Place


def judged_by_training(file: File) -> Iterator[Judged]:
    """`for x, y in dataset: ... backward()`, `if val_dataset is not None: for x, y in dataset: ...`."""
    for function in file.functions if ".backward(" in file.text else ():
        text = function.text
        if ".backward(" not in text or not any(word in text for word in ("no_grad", ".eval()", "inference_mode")):
            continue
        for held in function.parameters:
            if split_of_name(held) in ("val", "test") and stem(held):
                yield from _judged(function, held)


def _judged(function: Function, held: str) -> Iterator[Judged]:
    loops = [(loop, over) for loop in function.all(ast.For) if (over := _gone_over(loop.iter)) is not None]
    others = {over.id for _, over in loops if over.id != held and _is_its_training(over.id, held)}
    if len(others) != 1 or not _is_asked_about_alone(function, held):
        return
    own = [(loop, over) for loop, over in loops if over.id in others]
    trained = [loop for loop, _ in own if ".backward(" in _text(function, loop)]
    for loop, over in own:
        if loop in trained or any(loop in walk(other) for other in trained) or ".step(" in _text(function, loop):
            continue
        if trained and _is_quiet(function, loop) and not _is_without(function, loop, held):
            yield Judged(over.id, held, function.place(over))
            return


def _text(function: Function, node: ast.stmt) -> str:
    return function.file.module.text_of(node)


def _gone_over(node: ast.expr) -> ast.Name | None:
    """`loader` of `enumerate(tqdm(loader))`."""
    while isinstance(node, ast.Call) and node.args and last_name(node.func) in _AROUND:
        node = node.args[0]
    return node if isinstance(node, ast.Name) else None


def _is_its_training(name: str, held: str) -> bool:
    """`dataset` and `train_dataset` of `val_dataset`."""
    return name == stem(held) or (split_of_name(name) == "train" and stem(name) == stem(held))


def _is_asked_about_alone(function: Function, held: str) -> bool:
    """Whether it is asked for its length or whether it is there, and no more; made a loader of, under its own name."""
    aside: set[ast.AST] = set()
    for node in function.nodes:
        own = isinstance(node, ast.Assign) and any(is_name(target, held) for target in node.targets)
        tested = isinstance(node, ast.Call) and last_name(node.func) in _TESTS
        if own or tested or is_length(node) or isinstance(node, ast.Compare):
            aside.update(walk(node))
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            aside.update(
                part for part in (node.test, getattr(node.test, "operand", None)) if isinstance(part, ast.Name)
            )
        elif isinstance(node, ast.BoolOp):
            aside.update(part for part in node.values if isinstance(part, ast.Name))
    named = [node for node in walk(function.node) if is_name(node, held)]
    return all(node in aside for node in named) and "locals()" not in function.file.text


def _is_quiet(function: Function, loop: ast.For) -> bool:
    """Without gradients, around the loop or in it; or with the model in eval mode just before."""
    inside = _text(function, loop)
    if "no_grad" in inside or "inference_mode" in inside:
        return True
    for node in function.nodes:
        if isinstance(node, ast.With) and loop in walk(node):
            if any("no_grad" in ast.unparse(item) or "inference_mode" in ast.unparse(item) for item in node.items):
                return True
    return False


def _is_without(function: Function, loop: ast.For, held: str) -> bool:
    """Under `if val_dataset is None:`, `if not val_dataset:`: there is nothing else to go over."""
    for node in function.nodes:
        if not isinstance(node, ast.If):
            continue
        test = ast.unparse(node.test)
        arm = node.body if test in (f"{held} is None", f"not {held}") else []
        arm = node.orelse if test in (f"{held} is not None", held) else arm
        if any(loop in walk(line) for line in arm):
            return True
    return False
