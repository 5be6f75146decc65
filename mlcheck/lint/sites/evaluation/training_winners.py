"""Weights that are kept as the best by a score of the training data, beside one of the validation data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_BEST = pattern(r"best|(?:^|_)(?:min|lowest|max|highest)_")
_KEEPS = pattern(r"state_dict\(|deepcopy\(|torch\.save\(|save_checkpoint\(|save_model\(|\.save\(|save_pretrained\(")
_PHASES = frozenset(["train", "training"])
_HELD_OUT = frozenset(["val", "valid", "validation", "test", "eval", "dev"])


class TrainingWinner(NamedTuple):
    """The comparison that decides what is kept; `phase` is the variable of a loop over train and validation."""

    file: File
    context: Context
    compare: ast.Compare
    phase: str


def kept_by_training(sites: Sites) -> Iterator[TrainingWinner]:
    """`for phase in ["train", "val"]: ... if acc > best: save`, and `if train_loss < best` beside a `val_loss`."""
    for file in sites.mentioning(["best", "min_", "lowest"]) if sites.uses_torch else ():
        for loop, context in file.walk.loops:
            if not isinstance(loop, ast.For) or not _KEEPS.search(file.module.text_of(loop)):
                continue
            phase = _phase(loop)
            for branch, tests in _branches(loop.body, []):
                compare = _choice(branch)
                if compare is None or any(_is_told_by(test, phase) for test in (*tests, branch.test)):
                    continue
                if (phase and _is_of_phase(loop, compare, phase)) or (not phase and _has_better(loop, compare)):
                    yield TrainingWinner(file, context, compare, phase)


def _phase(loop: ast.For) -> str:
    """`phase` of `for phase in ["train", "val"]`."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.List(elts=elts) | ast.Tuple(elts=elts)):
            words = {elt.value for elt in elts if isinstance(elt, ast.Constant) and isinstance(elt.value, str)}
            return name if words & _PHASES and words & _HELD_OUT else ""
    return ""


def _branches(block: list[ast.stmt], tests: list[ast.expr]) -> Iterator[tuple[ast.If, list[ast.expr]]]:
    """The `if`s of a loop that run in each of its turns, with the tests of those around them."""
    for number, line in enumerate(block):
        if isinstance(line, ast.If):
            yield line, tests
            yield from _branches(line.body, [*tests, line.test])
            yield from _branches(line.orelse, [*tests, line.test])
            if any(isinstance(last, ast.Continue) for last in line.body):
                yield from _branches(block[number + 1 :], [*tests, line.test])
                return
        elif isinstance(line, ast.With | ast.Try):
            yield from _branches(line.body, tests)


def _choice(branch: ast.If) -> ast.Compare | None:
    """`score > best` where what follows keeps weights, and `score` becomes the best."""
    body = "\n".join(ast.unparse(line) for line in branch.body)
    for node in walk(branch.test) if _KEEPS.search(body) else ():
        match node:
            case ast.Compare(left=ast.Name() as left, ops=[ast.Gt() | ast.Lt() | ast.GtE() | ast.LtE()]):
                right = node.comparators[0]
                if isinstance(right, ast.Name) and _BEST.search(left.id) != _BEST.search(right.id):
                    score, best = (right, left) if _BEST.search(left.id) else (left, right)
                    if _BEST.search(best.id) and not _BEST.search(score.id) and _becomes(branch, best.id, score.id):
                        return node
    return None


def _becomes(branch: ast.If, best: str, score: str) -> bool:
    lines = (line for line in branch.body if isinstance(line, ast.Assign))
    return any(
        last_name(target) == best and last_name(value) == score for line in lines for target, value in assigned(line)
    )


def _is_told_by(test: ast.expr, phase: str) -> bool:
    """Whether a test asks for the phase, or for something that may tell it."""
    names = {node.id for node in walk(test) if isinstance(node, ast.Name)}
    words = {node.value for node in walk(test) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return phase in names or bool(words & (_PHASES | _HELD_OUT)) or any(split_of_name(name) == "val" for name in names)


def _is_of_phase(loop: ast.For, compare: ast.Compare, phase: str) -> bool:
    """Whether each phase computes the score that is compared."""
    names = {node.id for node in walk(compare) if isinstance(node, ast.Name)}
    made = {
        target.id
        for node in walk(loop)
        if isinstance(node, ast.Assign)
        for target, _ in assigned(node)
        if isinstance(target, ast.Name)
    }
    return any(name in made and not _BEST.search(name) and not split_of_name(name) for name in names)


def _has_better(loop: ast.For, compare: ast.Compare) -> bool:
    """Whether it is a score of training, and the same turn computes one of validation that is named alike."""
    scores = [node.id for node in walk(compare) if isinstance(node, ast.Name) and not _BEST.search(node.id)]
    if len(scores) != 1 or split_of_name(scores[0]) != "train":
        return False
    stem = _stem(scores[0])
    stored = {node.id for node in walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool(stem) and any(split_of_name(name) == "val" and _stem(name) == stem for name in stored)


def _stem(name: str) -> str:
    words = [word for word in name.lower().split("_") if word not in _PHASES | _HELD_OUT | {"avg", "mean", "epoch"}]
    return "_".join(words)
