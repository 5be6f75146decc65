"""windows-split-at-random: overlapping windows of a series are dealt out to training and evaluation."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Class, Context, File, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import returns

LOOKS_AT = "split"
WORDS = ("random_split", "train_test_split")
_SPLITS = ("torch.utils.data.random_split", "sklearn.model_selection.train_test_split")
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
        found = _windows(call.file, call.node.args[0], call.context)
        if found is not None:
            file, node, context = found
            yield Finding(
                "Windows that overlap are dealt out at random: nearly all of a held-out one was trained on",
                call.place.location,
                help="cut the series in time first, and make the windows of each part",
                related=(file.place(node, context).location,),
            )


def _windows(file: File, node: ast.expr, context: Context, depth: int = 5) -> tuple[File, ast.AST, Context] | None:
    """Where the windows are cut that an expression consists of, each one step behind the one before."""
    node, context = source(file, node, context)
    if depth <= 0:
        return None
    if isinstance(node, ast.ListComp):
        return (file, node, context) if _is_of_windows(node) else None
    if not isinstance(node, ast.Call):
        return None
    named = file.resolve(node.func, context)
    if isinstance(named, Function):
        given = list(returns(named))
        return _windows(named.file, given[0], named.inner, depth - 1) if len(given) == 1 else None
    if isinstance(named, Class):
        return _by_index(named)
    last = last_name(node.func)
    if last not in _JOINS:
        return None
    inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
    return _windows(file, inner, context, depth - 1) if inner is not None else None


def _is_of_windows(made: ast.ListComp) -> bool:
    """`[x[i : i + n] for i in range(...)]`, in steps of one."""
    loop = made.generators[0]
    steps = loop.iter if len(made.generators) == 1 and isinstance(loop.iter, ast.Call) else None
    if steps is None or getattr(steps.func, "id", "") not in ("range", "trange") or len(steps.args) > 2:
        return False
    parts = made.elt.elts if isinstance(made.elt, ast.Tuple) else [made.elt]
    return isinstance(loop.target, ast.Name) and any(_is_window(part, loop.target.id) for part in parts)


def _is_window(node: ast.AST, index: str) -> bool:
    """`x[i : i + n]`, of more than one step."""
    if not isinstance(node, ast.Subscript):
        return False
    bounds = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(bounds, ast.Slice) or bounds.step is not None or ast.unparse(bounds.lower or bounds) != index:
        return False
    end = bounds.upper
    return (
        isinstance(end, ast.BinOp)
        and isinstance(end.op, ast.Add)
        and ast.unparse(end.left) == index
        and not (isinstance(end.right, ast.Constant) and end.right.value in (0, 1))
    )


def _by_index(cls: Class) -> tuple[File, ast.AST, Context] | None:
    """`__getitem__` that cuts the window which begins at its index."""
    item = cls.find("__getitem__")
    names = list(item.parameters)[1:] if item is not None else []
    if item is None or len(names) != 1 or len(item.file.bindings(names[0], item.inner)) != 1:
        return None
    cut = next((node for node in walk(item.node) if _is_window(node, names[0])), None)
    return (item.file, cut, item.inner) if cut is not None else None
