"""What the rows of a table went through: back from where it is split, each expression that they came out of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.data.cutting import runs_after
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import given, returns
from mlcheck.lint.sites.scopes import Binding, Context

_DEPTH, _MANY = 14, 120
_VIEWS = ("values", "T", "loc", "iloc", "data", "target")
_ALL: frozenset[str] = frozenset()
_ROWS = frozenset(
    [
        *("astype", "to_numpy", "copy", "drop", "fillna", "dropna", "reset_index", "toarray", "todense", "reshape"),
        *("float", "numpy", "sample", "rename", "replace", "clip", "sort_values", "to", "clone", "squeeze", "tocsr"),
        *("apply", "map", "set_index", "assign", "infer_objects", "double", "long", "flatten", "ravel", "tolist"),
        *("transform", "fit_transform", "fit_resample"),
    ]
)
_MADE_OF = frozenset(
    [
        *("numpy.array", "numpy.asarray", "numpy.hstack", "numpy.column_stack", "numpy.concatenate", "numpy.c_"),
        *("numpy.nan_to_num", "torch.tensor", "torch.from_numpy", "torch.as_tensor", "torch.Tensor"),
        *("torch.FloatTensor", "pandas.DataFrame", "pandas.Series", "pandas.concat", "scipy.sparse.hstack"),
        *("torch.utils.data.TensorDataset", "builtins.list", "builtins.zip", "torch.cat", "torch.hstack"),
    ]
)


class Passed(NamedTuple):
    """An expression that rows came out of; `columns` are those that matter (none named: all), `dropped` do not."""

    file: File
    node: ast.expr
    context: Context
    item: int = -1
    columns: frozenset[str] = _ALL
    dropped: frozenset[str] = _ALL
    entered: Entered | None = None

    def at(self, node: ast.expr, context: Context | None = None, item: int = -1) -> Passed:
        return self._replace(node=node, context=context or self.context, item=item)


def lineage(file: File, node: ast.expr, context: Context) -> Iterator[Passed]:
    """All that is certain to have had a hand in the rows that an expression has, the nearest first."""
    todo, seen = [(Passed(file, node, context), _DEPTH)], set[tuple[int, int]]()
    while todo and len(seen) < _MANY:
        passed, depth = todo.pop(0)
        if (id(passed.node), passed.item) in seen or depth == 0:
            continue
        seen.add((id(passed.node), passed.item))
        yield passed
        todo += [(step, depth - 1) for step in _step(passed)]


def _step(passed: Passed) -> Iterator[Passed]:
    node = passed.node
    if isinstance(node, ast.Name):
        yield from _name(passed, node)
    elif isinstance(node, ast.Attribute):
        yield from _kept(passed, node) or [passed.at(node.value)] * (node.attr in _VIEWS)
    elif isinstance(node, ast.Subscript):
        columns = named_columns(node.slice)
        yield passed.at(node.value)._replace(columns=columns or passed.columns)
    elif isinstance(node, ast.BinOp):
        yield passed.at(node.left)
        yield passed.at(node.right)
    elif isinstance(node, ast.IfExp):
        yield passed.at(node.body)
        yield passed.at(node.orelse)
    elif isinstance(node, ast.Tuple | ast.List):
        parts = node.elts if passed.item < 0 else node.elts[passed.item : passed.item + 1]
        yield from (passed.at(part) for part in parts)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        yield passed.at(node.elt, Context("comprehension", node, passed.context, passed.context.scope))
        yield passed.at(node.generators[0].iter)
    elif isinstance(node, ast.Call):
        yield from _call(passed, node)


def _name(passed: Passed, node: ast.Name) -> Iterator[Passed]:
    """What the name was last bound to, and what was put into it since."""
    file, context = passed.file, passed.context
    last = latest(file, node, context)
    above = [found for found in file.bindings(node.id, context) if getattr(found.node, "lineno", 0) < node.lineno]
    for binding in [last] if last is not None else above:
        if last is not None or not (context.excludes(binding.context) or _has_left(binding.context, context)):
            yield from _bound(passed, binding)
    since = getattr(last.node, "end_lineno", 0) if last is not None else 0
    yield from _put_in(passed, node, since or 0)
    yield from _filled_in(passed, node, since or 0)


def _has_left(made: Context, use: Context) -> bool:
    """Whether the branch it was made in returns before the use."""
    around = {id(outer.node) for outer in use.outwards()}
    for outer in made.outwards():
        if isinstance(outer.node, ast.If) and id(outer.node) not in around:
            block = outer.node.body if outer.arm == "body" else outer.node.orelse
            if block and isinstance(block[-1], ast.Return | ast.Raise | ast.Continue):
                return True
    return False


def _bound(passed: Passed, binding: Binding) -> Iterator[Passed]:
    if binding.kind == "value" and isinstance(binding.value, ast.expr):
        yield passed.at(binding.value, binding.context, passed.item)
    elif binding.kind == "item" and isinstance(binding.value, ast.expr):
        yield passed.at(binding.value, binding.context, binding.item)
    elif binding.kind == "param" and isinstance(binding.node, ast.arg):
        function = passed.file.function_around(binding.context)
        entered = passed.entered
        if function is None:
            return
        if entered is not None and entered.function is function:
            held = entered.given(binding.node.arg)
            if held is not None and not held[1]:
                yield Passed(entered.call.file, held[0], entered.call.context, -1, passed.columns, passed.dropped)
        else:
            for origin in given(passed.file.sites, function, binding.node.arg):
                yield Passed(origin.file, origin.node, origin.context, -1, passed.columns, passed.dropped)


def _put_in(passed: Passed, use: ast.Name, since: int) -> Iterator[Passed]:
    """`frame["age"] = ...` above the use: the columns that matter and are not dropped."""
    file, bindings = passed.file, passed.file.bindings(use.id, passed.context)
    for node, context in file.walk.mutations.get(use.id, ()):
        line = getattr(node, "lineno", 0)
        if not since < line < use.lineno or file.bindings(use.id, context) is not bindings:
            continue
        if passed.context.excludes(context) or _has_left(context, passed.context):
            continue
        if file.function_around(context) is not file.function_around(passed.context):
            continue
        if isinstance(node, ast.Subscript):
            columns = named_columns(node.slice)
            if columns and ((passed.columns and columns.isdisjoint(passed.columns)) or columns <= passed.dropped):
                continue
            value = next((made.value for made in _assigned(file, context) if node in made.targets), None)
            if value is not None:
                yield Passed(file, value, context, -1, columns, passed.dropped, passed.entered)


def _filled_in(passed: Passed, use: ast.Name, since: int) -> Iterator[Passed]:
    """`frame.fillna(value, inplace=True)` above the use, as a statement."""
    file, bindings = passed.file, passed.file.bindings(use.id, passed.context)
    for call in file.calls("fillna"):
        owner = call.owner
        table = owner.value if isinstance(owner, ast.Subscript) else owner
        if not isinstance(table, ast.Name) or table.id != use.id or call.constant("inplace") is not True:
            continue
        same = file.bindings(use.id, call.context) is bindings and not passed.context.excludes(call.context)
        if same and since < call.node.lineno < use.lineno:
            yield passed.at(call.node, call.context)


def _assigned(file: File, context: Context) -> Iterator[ast.Assign]:
    function = file.function_around(context)
    nodes = function.nodes if function is not None else walk(file.module.source.tree)
    return (node for node in nodes if isinstance(node, ast.Assign))


def named_columns(node: ast.expr) -> frozenset[str]:
    """`"age"`, `["age", "size"]`, `(:, "age")`; nothing where they are not written out."""
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        return named_columns(node.elts[1])
    parts = node.elts if isinstance(node, ast.List) else [node]
    words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return frozenset(words) if len(words) == len(parts) else _ALL


def _kept(passed: Passed, node: ast.Attribute) -> list[Passed]:
    """`self.features`, which the class assigns once, or in a method that runs before, as its constructor."""
    method = passed.file.method_around(passed.context)
    if method is None or method.cls is None or not isinstance(node.value, ast.Name):
        return []
    if node.value.id != method.receiver:
        return []
    cls, found = method.cls, method.cls.attribute(node.attr)
    certain = [pair for pair in found if len(found) == 1 or pair[0] is method or runs_after(cls, pair[0], method)]
    steps = []
    for function, assigned in certain:
        if function is method and getattr(assigned.node, "lineno", 0) >= node.lineno:
            continue
        value = assigned.value if assigned.value is not None else assigned.unpacked
        if value is not None:
            steps.append(Passed(function.file, value, assigned.context, assigned.item, passed.columns, passed.dropped))
    return steps


def _call(passed: Passed, node: ast.Call) -> Iterator[Passed]:
    named = passed.file.resolve(node.func, passed.context)
    if isinstance(named, Function):
        through = Entered(named, Call(passed.file, node, passed.context))
        for returned in returns(named):
            if not through.leaves_out(returned, named.inner):
                yield passed._replace(
                    file=named.file, node=returned, context=named.inner, entered=through, item=passed.item
                )
    elif isinstance(named, Class):
        yield from _of_dataset(named)
    elif isinstance(named, str) and canonical(named) in _MADE_OF:
        yield from (passed.at(part) for part in node.args)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _ROWS:
        dropped = _dropped(node) if node.func.attr == "drop" else _ALL
        if named is None or not isinstance(named, str):
            yield passed.at(node.func.value)._replace(dropped=passed.dropped | dropped)
        if node.func.attr in ("transform", "fit_transform", "fit_resample") and node.args:
            yield passed.at(node.args[0])


def _dropped(node: ast.Call) -> frozenset[str]:
    """The columns that `drop(columns=[...])` and `drop("a", axis=1)` leave out."""
    for word in node.keywords:
        if word.arg == "columns":
            return named_columns(word.value)
    by_column = [ast.unparse(word.value) for word in node.keywords if word.arg == "axis"] + [
        ast.unparse(arg) for arg in node.args[1:2]
    ]
    return named_columns(node.args[0]) if node.args and by_column in (["1"], ["'columns'"]) else _ALL


def _of_dataset(cls: Class) -> Iterator[Passed]:
    """What the constructor of a data set keeps."""
    if cls.find("__getitem__") is None:
        return
    for pairs in cls.attributes.values():
        for function, assigned in pairs:
            if function.name == "__init__" and assigned.value is not None:
                yield Passed(function.file, assigned.value, assigned.context)
