"""windows-split-at-random: overlapping windows of a series are dealt out to training and evaluation."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_length, last_name, walk
from mlcheck.lint.sites import Call, Class, Context, File, Function
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.origins import origins, returns

LOOKS_AT = "split"
WORDS = ("random_split", "train_test_split")
_SPLITS = ("torch.utils.data.random_split", "sklearn.model_selection.train_test_split")
_DEPTH = 9
_JOINS = ("stack", "array", "asarray", "tensor", "as_tensor", "from_numpy", "list", "float", "TensorDataset")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*_SPLITS))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        if (
            not call.node.args
            or call.constant("shuffle", None, True) is not True
            or call.argument("groups") is not None
        ):
            continue
        found = _of_all(call)
        if found is not None:
            file, node, context = found
            yield Finding(
                "Windows that overlap are dealt out at random: nearly all of a held-out one was trained on",
                call.place.location,
                help="cut the series in time first, and make the windows of each part",
                related=(file.place(node, context).location,),
            )


def _of_all(call: Call) -> tuple[File, ast.AST, Context] | None:
    """Where the windows are cut that are split, whatever the function around is given to split."""
    given = call.node.args[0]
    if (found := _windows(call.file, given, call.context)) is not None:
        return found
    made = [each for each in origins(call.file, given, call.context) if each.node is not given]
    cut = [_windows(each.file, each.node, each.context) for each in made]
    return cut[0] if cut and all(cut) else None


def _windows(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> tuple[File, ast.AST, Context] | None:
    """Where the windows are cut that an expression consists of, each one step behind the one before."""
    listed, (node, context) = node, source(file, node, context)
    if depth <= 0:
        return None
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice).startswith("(:, "):
        return _windows(file, node.value, context, depth - 1)
    if isinstance(node, ast.Subscript) and _is_grid(file, node.slice, context):
        return file, node, context
    if isinstance(node, ast.Name):
        return _unpacked(file, node, context, depth)
    if _is_empty_list(node) and isinstance(listed, ast.Name):
        return _appended(file, listed, context)
    if isinstance(node, ast.ListComp):
        return (file, node, context) if _is_of_windows(file, context, node) else None
    if not isinstance(node, ast.Call):
        return None
    named = file.resolve(node.func, context)
    if isinstance(named, Function):
        given = list(returns(named))
        return _windows(named.file, given[0], named.inner, depth - 1) if len(given) == 1 else None
    if isinstance(named, Class):
        return _by_index(named) or _of_table(named, depth - 1)
    last = last_name(node.func)
    if _slides(file, node, context):
        return file, node, context
    if last in ("range", "arange") and len(node.args) == 1 and is_length(node.args[0]):
        counted = node.args[0]
        return _windows(file, counted.args[0], context, depth - 1) if isinstance(counted, ast.Call) else None
    if last not in _JOINS:
        return None
    inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
    return _windows(file, inner, context, depth - 1) if inner is not None else None


def _unpacked(file: File, node: ast.Name, context: Context, depth: int) -> tuple[File, ast.AST, Context] | None:
    """`x` of `x, y = make_windows(series)`."""
    bound = latest(file, node, context)
    made = bound.value if bound is not None and bound.kind == "item" else None
    named = file.resolve(made.func, bound.context) if bound is not None and isinstance(made, ast.Call) else None
    given = list(returns(named)) if isinstance(named, Function) else []
    parts = given[0].elts if len(given) == 1 and isinstance(given[0], ast.Tuple) else []
    if bound is None or not isinstance(named, Function) or bound.item >= len(parts):
        return None
    return _windows(named.file, parts[bound.item], named.inner, depth - 1)


def _is_empty_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and not node.elts


def _appended(file: File, listed: ast.Name, context: Context) -> tuple[File, ast.AST, Context] | None:
    """`for i in range(n): windows.append(series[i : i + width])`, and nothing else comes into the list."""
    function = file.function_around(context)
    changes = [each for each in file.walk.mutations.get(listed.id, ()) if file.function_around(each[1]) is function]
    if len(changes) != 1:
        return None
    (node, at) = changes[0]
    loop = at.node if at.kind == "loop" and isinstance(at.node, ast.For) else None
    match node:
        case ast.Call(func=ast.Attribute(attr="append"), args=[part]) if loop is not None:
            parts = part.elts if isinstance(part, ast.Tuple) else [part]
            indexed = _counts_by_one(loop.iter) and isinstance(loop.target, ast.Name)
            if indexed and any(_is_window(file, at, each, ast.unparse(loop.target)) for each in parts):
                return file, node, at
    return None


def _counts_by_one(over: ast.expr) -> bool:
    """`range(n)`, `range(first, last)`: in steps of one."""
    called = over.func if isinstance(over, ast.Call) else None
    return isinstance(over, ast.Call) and getattr(called, "id", "") in ("range", "trange") and len(over.args) < 3


def _is_of_windows(file: File, context: Context, made: ast.ListComp) -> bool:
    """`[x[i : i + n] for i in range(...)]`, in steps of one."""
    loop = made.generators[0]
    if len(made.generators) != 1 or not _counts_by_one(loop.iter):
        return False
    parts = made.elt.elts if isinstance(made.elt, ast.Tuple) else [made.elt]
    if not isinstance(loop.target, ast.Name):
        return False
    inner = Context("comprehension", made, context, context.scope)
    return any(_is_window(file, inner, part, loop.target.id) for part in parts)


def _is_window(file: File, context: Context, node: ast.AST, index: str) -> bool:
    """`x[i : i + n]` and `x[i - n : i]`, of more than one step, also with its ends in names; `x.narrow(0, i, n)`."""
    if isinstance(node, ast.Call) and last_name(node.func) == "narrow" and len(node.args) > 2:
        return ast.unparse(node.args[-2]) == index and ast.unparse(node.args[-1]) not in ("0", "1")
    if not isinstance(node, ast.Subscript):
        return False
    bounds = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(bounds, ast.Slice) or bounds.step is not None or bounds.lower is None or bounds.upper is None:
        return False
    lower, upper = (_end(file, each, context) for each in (bounds.lower, bounds.upper))
    match lower:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Sub(), right=width) if name == index:
            return ast.unparse(upper) == index and ast.unparse(width) not in ("0", "1")
    end = upper if ast.unparse(lower) == index else None
    return (
        isinstance(end, ast.BinOp)
        and isinstance(end.op, ast.Add)
        and ast.unparse(end.left) == index
        and not (isinstance(end.right, ast.Constant) and end.right.value in (0, 1))
    )


def _end(file: File, node: ast.expr, context: Context) -> ast.expr:
    """`i + n` of `end`, where it is assigned that above, and `i` of `start = i`."""
    made, _ = source(file, node, context)
    if isinstance(made, ast.BinOp) and isinstance(made.left, ast.Name) and isinstance(made.op, ast.Add):
        first, _ = source(file, made.left, context)
        return ast.BinOp(first, made.op, made.right)
    return made


def _slides(file: File, node: ast.Call, context: Context) -> bool:
    """`series.unfold(0, n, 1)` and `sliding_window_view(series, n)`."""
    if last_name(node.func) == "unfold" and len(node.args) == 3:
        return file.constant(node.args[0], context) == 0 and file.constant(node.args[2], context) == 1
    return file.called(node, context) == "numpy.lib.stride_tricks.sliding_window_view" and len(node.args) == 2


def _by_index(cls: Class) -> tuple[File, ast.AST, Context] | None:
    """`__getitem__` that cuts the window which begins at its index."""
    item = cls.find("__getitem__")
    names = list(item.parameters)[1:] if item is not None else []
    if item is None or len(names) != 1 or len(item.file.bindings(names[0], item.inner)) != 1:
        return None
    file, inner = item.file, item.inner
    cut = next((node for node in walk(item.node) if _is_window(file, inner, node, names[0])), None)
    return (file, cut, inner) if cut is not None else None


def _is_grid(file: File, index: ast.expr, context: Context) -> bool:
    """`numpy.arange(width)[None, :] + numpy.arange(n)[:, None]`: one row for each window."""
    made, where = source(file, index, context)
    sides = [made.left, made.right] if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Add) else []
    rows = {ast.unparse(side.slice) for side in sides if isinstance(side, ast.Subscript)}
    counted = [file.called(side.value, where) for side in sides if isinstance(side, ast.Subscript)]
    columns = rows == {"(None, :)", "(:, None)"} or rows == {"None, :", ":, None"} or rows == {"None", ":, None"}
    return columns and all(name in ("numpy.arange", "torch.arange") for name in counted)


def _of_table(cls: Class, depth: int) -> tuple[File, ast.AST, Context] | None:
    """`__getitem__` that takes a row of `self.x`, which the constructor makes of windows."""
    item = cls.find("__getitem__")
    index = list(item.parameters)[1:] if item is not None else []
    rows = [node for node in item.nodes if isinstance(node, ast.Subscript)] if item is not None else []
    for name in {own_attribute(node.value, item) for node in rows if ast.unparse(node.slice) in index} - {""}:
        sets = cls.attribute(name)
        function, kept = sets[0] if len(sets) == 1 else (None, None)
        if function is None or kept is None:
            continue
        if kept.value is not None:
            found = _windows(function.file, kept.value, kept.context, depth)
        else:
            made = [] if kept.unpacked is None else origins(function.file, kept.unpacked, kept.context)
            parts = [each for each in made if isinstance(each.node, ast.Tuple) and kept.item < len(each.node.elts)]
            cut = [
                _windows(e.file, e.node.elts[kept.item], e.context, depth)
                for e in parts
                if isinstance(e.node, ast.Tuple)
            ]
            found = cut[0] if len(cut) == len(made) == 1 else None
        if found is not None:
            return found
    return None
