"""Where an array is cut in two: `train, test = x[:n], x[n:]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, dotted, last_name, walk
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.guards import conditions, own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.values import split_of_name

_CONVERSIONS = ("tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "array", "asarray", "DataFrame")
_ROW_BY_ROW = ("float", "double", "to", "cuda", "cpu", "type", "astype", "copy", "numpy", "unsqueeze", "squeeze")
_MAX_NAMES = 6


def cut_behind(call: Call, made: ast.stmt, target: ast.expr) -> ast.Subscript | None:
    """The held-out part of what `made` gave the target, by the function of the call or a method that runs after it."""
    for scope in _scopes_behind(call, made, target):
        for kept in _kept_rows(scope, made, dotted(target)):
            if (cut := _cut_in_two(scope, *kept)) is not None:
                return cut
    return None


def _scopes_behind(call: Call, made: ast.stmt, target: ast.expr) -> Iterator[ast.AST]:
    """The function around; of `self.rows = ...` also the methods below it that the object runs after that."""
    yield around(call)
    method, cls = call.function, call.cls
    name = own_attribute(target, method) if method is not None else ""
    if method is None or cls is None or not name:
        return
    if all(function.name == "__init__" or function is method for function, _ in cls.attribute(name)):
        later = (other for other in cls.methods.values() if other.node.lineno > (made.end_lineno or made.lineno))
        yield from (other.node for other in later if runs_after(cls, method, other))


def runs_after(cls: Class, first: Function, then: Function) -> bool:
    """Whether one is called and further down the other, of an object or by its methods; its constructor comes first."""
    if first.name == "__init__":
        return then is not first
    for method in cls.methods.values():
        lines = [node for line in straight(method.node.body) if not isinstance(line, ast.If) for node in walk(line)]
        called = [(own_attribute(node.func, method), node.lineno) for node in lines if isinstance(node, ast.Call)]
        begun = min((line for name, line in called if name == first.name), default=None)
        if begun is not None and any(name == then.name and line > begun for name, line in called):
            return True
    begins = [call for call in callers(cls.file.sites, first) if not conditions(call.context)]
    return any(
        one.function is other.function
        and one.file is other.file
        and _object(one) == _object(other) != ""
        and one.node.lineno < other.node.lineno
        for one in begins
        for other in callers(cls.file.sites, then)
    )


def _object(call: Call) -> str:
    """`data` of `data.split()`."""
    return dotted(call.owner) if call.owner is not None else ""


def _cut_in_two(scope: ast.AST, made: ast.stmt, name: str) -> ast.Subscript | None:
    """The held-out part of what the statement `made` gave `name`, where the names of both parts tell them apart."""
    heads: dict[str, ast.Subscript] = {}
    tails: dict[str, ast.Subscript] = {}
    for statement in walk(scope):
        if not isinstance(statement, ast.Assign) or statement.lineno <= (made.end_lineno or made.lineno):
            continue
        for target, part in _parts(statement):
            if dotted(part.value) == name:
                split, bounds = split_of_name(target), part.slice
                assert isinstance(bounds, ast.Slice)
                if bounds.upper is not None and split == "train":
                    heads[ast.unparse(bounds.upper)] = part
                elif bounds.lower is not None and split in ("val", "test"):
                    tails[ast.unparse(bounds.lower)] = part
    found = next((tails[bound] for bound in heads if bound in tails), None) or _by_choice(scope, made, name)
    found = found or _by_branches(scope, made, name) or _by_indices(scope, made, name)
    if found is None or _is_made_again(scope, made, found, name):
        return None
    return found


def _kept_rows(scope: ast.AST, made: ast.stmt, name: str) -> Iterator[tuple[ast.stmt, str]]:
    """The names of the same rows: that of the statement `made`, and those of what is made of it row by row.

    `values = torch.tensor(scaled).float()`
    """
    todo = [(made, name)]
    for made, name in todo:
        yield made, name
        for statement in walk(scope) if len(todo) < _MAX_NAMES else ():
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(statement, ast.Assign) or target is None or not dotted(target):
                continue
            if statement.lineno > (made.end_lineno or made.lineno) and _converted(statement.value) == name:
                if not _is_made_again(scope, made, statement, name) and (statement, dotted(target)) not in todo:
                    todo.append((statement, dotted(target)))


def _converted(value: ast.expr) -> str:
    """`x` of `torch.tensor(x).float()`."""
    made = before_methods(value, _ROW_BY_ROW)
    if made is value and not isinstance(made, ast.Call):
        return ""
    if isinstance(made, ast.Call) and last_name(made.func) in _CONVERSIONS and made.args:
        made = made.args[0]
    return dotted(made)


def _by_choice(scope: ast.AST, made: ast.stmt, name: str) -> ast.Subscript | None:
    """`self.x = x[:n] if train else x[n:]`, and the same in two branches."""
    for node in walk(scope):
        if not isinstance(node, ast.If | ast.IfExp) or node.lineno < made.lineno or not _asks_split(node.test):
            continue
        arms = (node.body, node.orelse) if isinstance(node, ast.IfExp) else (_slice(node.body), _slice(node.orelse))
        sides = [arm for arm in arms if isinstance(arm, ast.Subscript) and isinstance(arm.slice, ast.Slice)]
        if len(sides) < 2 or any(dotted(side.value) != name for side in sides):
            continue
        bounds = [
            (_text(side.slice.lower), _text(side.slice.upper)) for side in sides if isinstance(side.slice, ast.Slice)
        ]
        for (low, high), (other_low, other_high) in (bounds, bounds[::-1]):
            if not low and not other_high and high and high == other_low:
                return next(side for side, bound in zip(sides, bounds, strict=True) if bound[0] == high)
    return None


def _by_branches(scope: ast.AST, made: ast.stmt, name: str) -> ast.Subscript | None:
    """`if flag == "train": self.train_rows = x[begin:end]`, and below it `if flag == "test": self.test_rows = ...`."""
    found: dict[str, ast.Subscript] = {}
    for branch in walk(scope):
        if not isinstance(branch, ast.If) or branch.lineno < made.lineno or not _asks_split(branch.test):
            continue
        for line in branch.body:
            for target, part in _parts(line) if isinstance(line, ast.Assign) else ():
                if dotted(part.value) == name and split_of_name(target):
                    found[split_of_name(target)] = part
    return next((found[split] for split in ("val", "test") if split in found), None) if "train" in found else None


def _by_indices(scope: ast.AST, made: ast.stmt, name: str) -> ast.Subscript | None:
    """`x[train_index]` and `x[test_index]`."""
    found: dict[str, ast.Subscript] = {}
    for part in walk(scope):
        if isinstance(part, ast.Subscript) and part.lineno > (made.end_lineno or made.lineno):
            if dotted(part.value) == name and isinstance(part.slice, ast.Name | ast.Attribute):
                found.setdefault(split_of_name(last_name(part.slice)), part)
    return next((found[split] for split in ("test", "val") if split in found), None) if "train" in found else None


def _asks_split(test: ast.expr) -> bool:
    """`split == "train"`, `self.train`, `mode != "test"`."""
    words = [node.value for node in walk(test) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    words += [last_name(node) for node in walk(test) if isinstance(node, ast.Name | ast.Attribute)]
    return any(split_of_name(word) for word in words)


def _slice(block: list[ast.stmt]) -> ast.expr | None:
    """The slice that the only assignment of a block takes."""
    made = [line.value for line in block if isinstance(line, ast.Assign) and isinstance(line.value, ast.Subscript)]
    return made[0] if len(made) == 1 else None


def _text(bound: ast.expr | None) -> str:
    return ast.unparse(bound) if bound is not None else ""


def _parts(statement: ast.Assign) -> Iterator[tuple[str, ast.Subscript]]:
    """The names that get a slice, with the slice: of the first dimension where there are several."""
    target, value = statement.targets[0], statement.value
    many = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    pairs = zip(target.elts, value.elts, strict=True) if many else [(target, value)]  # type: ignore[attr-defined]
    for one, part in pairs:
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice):
            yield last_name(one), part


def _is_made_again(scope: ast.AST, made: ast.stmt, cut: ast.stmt | ast.expr, name: str) -> bool:
    lines = range((made.end_lineno or made.lineno) + 1, cut.lineno)
    return any(
        isinstance(n, ast.Name | ast.Attribute)
        and n.lineno in lines
        and isinstance(n.ctx, ast.Store | ast.Del)
        and dotted(n) == name
        for n in walk(scope)
    )
