"""Whether a score was taken on the test set, by the names of what it was computed from."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TypeGuard

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.data.test_sets import holds_test_set, is_tested_too
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, origin
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_MEASURES = pattern(r"loss|crit|func|fn$|metric|score", re.IGNORECASE)
_VALIDATES = pattern(r"""["']test["']: *\w*val""")
"""`{"train": train_loader, "test": val_loader}`: what goes by the word here is held out for validation."""
_OPTIONS = frozenset(["args", "opt", "opts", "cfg", "config", "conf", "hparams", "params", "options", "FLAGS"])


def scored_on_test(file: File, score: ast.expr, context: Context, depth: int = 2) -> ast.AST | None:
    """The call, or the loop, that took the score from the test set; a mean of scores is one where all of them are."""
    if _VALIDATES.search(file.text):
        return None
    value = score
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    found, where = assigned(file, value, context)
    for _ in range(3):
        found, where = _whole_of(file, found, where)
    one = _one_of_several(file, score, found, where, context)
    if one is not None:
        return found if is_test_data(one) and not is_validation(one) else None
    for node in walk(found):
        if isinstance(node, ast.Call):
            given = [part for arg in (*node.args, *(word.value for word in node.keywords)) for part in _parts(arg)]
            both = [arg for arg in given if is_validation(arg) and is_tested_too(file, arg, where)]
            tested = any(is_test_data(arg) or holds_test_set(file, arg, where) for arg in given)
            if any(map(_is_train_data, given)) and _is_named_train(file, score, context):
                return None
            if both or (tested and not any(is_validation(arg) for arg in given)):
                return found if isinstance(found, ast.Call) else node
            named = file.resolve(node.func, where)
            if isinstance(named, Function) and not any(map(is_validation, given)) and _loops_over_test(named):
                return node
    added = _added_up(file, found, where, value)
    if added is not None or found is score or depth == 0 or not isinstance(found, ast.BinOp):
        return added
    names = [node for node in walk(found) if isinstance(node, ast.Name)]
    taken = [scored_on_test(file, name, where, depth - 1) for name in names]
    return next(iter(taken), None) if None not in taken else None


def _is_train_data(given: ast.expr) -> bool:
    return isinstance(given, ast.Name | ast.Attribute) and split_of_name(last_name(given)) == "train"


def _is_named_train(file: File, score: ast.expr, context: Context) -> bool:
    """`train_score` of `train_score, test_score = evaluate(train_loader, test_loader)`, or `results["train"]`."""
    part: ast.AST | None = score
    for _ in range(3):
        match part:
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                pass
            case ast.Name(id=name) | ast.Attribute(attr=name):
                pass
            case _:
                return False
        if split_of_name(name) == "train":
            return True
        bound = latest(file, part, context) if isinstance(part, ast.Name) else None
        part = bound.value if bound is not None and bound.kind == "value" else None
    return False


def _whole_of(file: File, found: ast.expr, where: Context) -> tuple[ast.expr, Context]:
    """Of `results` in `score, _ = results`, and of `results["f1"]`, the call that gives all of them."""
    part = found
    while isinstance(part, ast.Attribute | ast.Subscript) and not is_validation(part):
        part = part.value
    made, there = origin(file, part, where) if isinstance(part, ast.Name) else (found, where)
    return (made, there) if isinstance(made, ast.Call | ast.Name | ast.Attribute | ast.Subscript) else (found, where)


def _one_of_several(file: File, score: ast.expr, found: ast.expr, where: Context, context: Context) -> ast.expr | None:
    """`test` of `scores[2]`, and of `c` in `a, b, c = scores`, with `scores = [run(x) for x in (train, val, test)]`."""
    if not isinstance(found, ast.ListComp) or len(found.generators) != 1 or found.generators[0].ifs:
        return None
    over, _ = file.value(found.generators[0].iter, where)
    held = over.elts if isinstance(over, ast.Tuple | ast.List) else []
    number = None
    match score:
        case ast.Subscript(value=ast.Name(), slice=index):
            number = file.constant(index, context)
        case ast.Name():
            bound = latest(file, score, context)
            number = bound.item if bound is not None and bound.kind == "item" else None
    known = isinstance(number, int) and -len(held) <= number < len(held)
    return held[number] if known and isinstance(number, int) else None


def _parts(given: ast.expr) -> list[ast.expr]:
    """`(names_val, labels_val)`, handed over as one, is what its parts are."""
    return given.elts if isinstance(given, ast.Tuple | ast.List) else [given]


def _added_up(file: File, found: ast.expr, context: Context, listed: ast.expr) -> ast.AST | None:
    """The loop over the test set that adds up the numbers behind the score, or lists them: the last one above it."""
    function = file.function_around(context)
    body = function.node if function is not None else file.module.source.tree
    names = {node.id for node in walk(found) if isinstance(node, ast.Name)}
    names |= {name for name in (last_name(listed),) if isinstance(found, ast.List) and not found.elts}
    loops = [node for node in walk(body) if isinstance(node, ast.For)]
    adding = [(line.lineno, loop) for loop in loops for line in walk(loop) if _adds_to(line, names)]
    last = max((line for line, _ in adding if line < found.lineno), default=0)
    for line, loop in adding:
        if last in (0, line) and _mentions(loop.iter, is_test_data) and not _mentions(loop.iter, is_validation):
            return loop.iter
    return None


def _adds_to(node: ast.AST, names: set[str]) -> TypeGuard[ast.AugAssign | ast.Call]:
    """`total += score`, `scores.append(score)`."""
    match node:
        case (
            ast.AugAssign(target=ast.Name(id=name))
            | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))
        ):
            return name in names
    return False


def assigned(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """What was last assigned to a name above its use, in whatever branch or loop."""
    if not isinstance(node, ast.Name):
        return node, context
    found, where = origin(file, node, context)
    if found is not node:
        return found, where
    above = [b for b in file.bindings(node.id, context) if getattr(b.node, "lineno", 0) < node.lineno]
    if above and above[-1].kind in ("value", "item") and isinstance(above[-1].value, ast.expr):
        return above[-1].value, above[-1].context
    return node, context


def is_test_data(node: ast.expr) -> bool:
    """`test_loader`, `loaders["test"]`, `score(model, "test")`; an option, `args.batch_size_test`, is none."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return isinstance(node.slice.value, str) and split_of_name(node.slice.value) == "test"
    if isinstance(node, ast.Constant):
        return node.value == "test"
    if isinstance(node, ast.Attribute) and last_name(node.value) in _OPTIONS:
        return False
    return isinstance(node, ast.Name | ast.Attribute) and split_of_name(ast.unparse(node).rpartition(".")[2]) == "test"


def is_validation(node: ast.expr) -> bool:
    """`val_loader`, `loaders["val"]`, `score(model, ["val", "test"])`; `eval_loss_func` is no data."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and split_of_name(node.value) == "val"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return isinstance(node.slice.value, str) and split_of_name(node.slice.value) == "val"
    name = last_name(node)
    return split_of_name(name) == "val" and not _MEASURES.search(name)


def _loops_over_test(function: Function) -> bool:
    """Whether it goes over a test set that it is not given, and over no other data."""
    loops = [node.iter for node in walk(function.node) if isinstance(node, ast.For)]
    own = {
        part for over in loops for part in walk(over) if isinstance(part, ast.Name) and part.id in function.parameters
    }
    tested = any(_mentions(over, lambda part: part not in own and is_test_data(part)) for over in loops)
    return tested and not any(_mentions(over, is_validation) for over in loops)


def _mentions(node: ast.expr, asked: Callable[[ast.expr], bool]) -> bool:
    return any(asked(part) for part in walk(node) if isinstance(part, ast.expr))
