"""quantiser-gradient-wrong: a rounding stops the gradient, or a codebook and its encoder do not learn of each other."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites import File, Function
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.returning import returns

LOOKS_AT = "quantisation in a model"
WORDS = ("quant", "round", "sign(", "argmin", "argmax", "codebook", "embed", "one_hot", "scatter", "hard")
_STEPS = frozenset(["round", "sign", "floor", "ceil", "one_hot", "scatter", "scatter_", "heaviside", "bucketize"])
_CHOICES = frozenset(["argmin", "argmax"])
_SHAPES = ("view", "view_as", "reshape", "permute", "contiguous", "float", "to", "type_as", "squeeze", "type")
_DEPTH = 8
_CUTS = ("detach", "data", "stop_gradient", "no_grad")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for function in file.functions if "torch" in file.text else ():
            # A sum that is detached as a whole is told of by parameter-without-gradient.
            detaches = (call.func for call in function.all(ast.Call) if isinstance(call.func, ast.Attribute))
            whole = {each.value for each in detaches if each.attr == "detach"}
            for node in function.all(ast.BinOp):
                if isinstance(node.op, ast.Add | ast.Sub) and node not in whole:
                    yield from _judged(facts, file, function, node)


def _judged(facts: Facts, file: File, function: Function, node: ast.BinOp) -> Iterator[Finding]:
    parts = _straight_through(node)
    if parts is not None:
        value, passed, is_cut = parts
        facts.sites.seen[LOOKS_AT] += _is_stepped(file, function, value) or _is_stepped(file, function, passed)
        if not is_cut and _is_stepped(file, function, value) and not _is_stepped(file, function, passed):
            name, quantised = ast.unparse(passed), ast.unparse(value)
            yield Finding(
                f"`{name}` cancels out here, its gradient as well: no gradient passes `{quantised}`",
                function.place(node).location,
                help=f"`{name} + ({quantised} - {name}).detach()`",
            )
        elif is_cut and _is_stepped(file, function, passed) and not _is_stepped(file, function, value):
            yield Finding(
                f"This has the value of `{ast.unparse(value)}`, which is not quantised, and the gradient of "
                f"`{ast.unparse(passed)}`: none reaches what was quantised",
                function.place(node).location,
                help=f"`{ast.unparse(value)} + ({ast.unparse(passed)} - {ast.unparse(value)}).detach()`",
            )
    elif isinstance(node.op, ast.Add) and (twice := _told_twice(file, function, node)) is not None:
        yield Finding(
            "Both terms detach the same side: either the codebook or the encoder learns nothing of the other",
            function.place(twice).location,
            help="detach the codes in one term, and what they stand for in the other",
        )


def _straight_through(node: ast.BinOp) -> tuple[ast.expr, ast.expr, bool] | None:
    """`q` and `x` of `x + (q - x)`, `(q - x) + x` and `q - x + x`, and whether the difference is detached."""
    if not isinstance(node.op, ast.Add):
        return None
    for passed, rest in ((node.left, node.right), (node.right, node.left)):
        inner = before_methods(rest, ("detach",))
        if not isinstance(passed, ast.Name | ast.Attribute):
            continue
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            plain = not any(word in ast.unparse(inner) for word in _CUTS)
            if plain and ast.unparse(inner.right) == ast.unparse(passed) != ast.unparse(inner.left):
                return inner.left, passed, inner is not rest
    return None


def _is_stepped(file: File, function: Function, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether it was rounded, or looked up by the index of the nearest: no gradient comes back through it."""
    node = before_methods(node, _SHAPES)
    if depth == 0:
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):  # `round(x * scale) / scale`
        return _is_stepped(file, function, node.left, depth - 1)
    if (inner := _answer(file, function, node)) is not None:
        return _is_stepped(inner[0].file, *inner, depth - 1)
    if isinstance(node, ast.Call) and last_name(node.func) in _STEPS:
        return not isinstance(file.resolve(node.func, function.inner), Function)
    if isinstance(node, ast.Call) and any(_is_choice(file, function, arg) for arg in node.args):
        return _is_lookup(node)
    made, _ = origin(file, node, function.inner)
    return _is_scattered(function, node) if made is node else _is_stepped(file, function, made, depth - 1)


def _answer(file: File, function: Function, node: ast.expr) -> tuple[Function, ast.expr] | None:
    """What a function of the project returns, where that is one thing: the function, and the expression in it."""
    named = file.resolve(node.func, function.inner) if isinstance(node, ast.Call) else None
    answers = list(returns(named)) if isinstance(named, Function) and not named.node.decorator_list else []
    return (named, answers[0]) if isinstance(named, Function) and len(answers) == 1 else None


def _is_lookup(call: ast.Call) -> bool:
    """`self.codebook(index)`, `F.embedding(index, weight)`."""
    return isinstance(call.func, ast.Attribute) and _BOOK.search(call.func.attr) is not None


_BOOK = pattern(r"embed|code|book|dictionary")


def _is_choice(file: File, function: Function, node: ast.expr) -> bool:
    """The index of the nearest or the largest, by name, as it is written, or as a function returns it."""
    made, _ = origin(file, before_methods(node, _SHAPES), function.inner)
    made = before_methods(made, _SHAPES)
    if (inner := _answer(file, function, made)) is not None:
        function, (made, _) = inner[0], origin(inner[0].file, before_methods(inner[1], _SHAPES), inner[0].inner)
        made = before_methods(made, _SHAPES)
    return isinstance(made, ast.Call) and last_name(made.func) in _CHOICES


def _is_scattered(function: Function, node: ast.expr) -> bool:
    """`hard.scatter_(1, index, 1)` as a statement."""
    lines = (line.value for line in function.all(ast.Expr) if isinstance(line.value, ast.Call))
    return any(ast.unparse(line.func) == f"{ast.unparse(node)}.scatter_" for line in lines)


def _told_twice(file: File, function: Function, node: ast.BinOp) -> ast.expr | None:
    """The second of two terms that are equal but for a factor, and compare what is detached with what is not."""
    found: dict[frozenset[str], ast.expr] = {}
    for term in _terms(node):
        held, _ = file.value(term, function.inner) if isinstance(term, ast.Name) else (term, None)
        compared = _compared(held)
        if compared is None or sum(side.endswith(".detach()") for side in compared) != 1:
            continue
        if compared in found:
            return term
        found[compared] = term
    return None


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """What is added up, without the weights."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        yield next((side for side in sides if any(isinstance(part, ast.Call) for part in walk(side))), node.right)
    else:
        yield node


def _compared(node: ast.expr) -> frozenset[str] | None:
    """Both sides of `F.mse_loss(a, b)`, `torch.mean((a - b) ** 2)` and `((a - b) ** 2).mean()`."""
    if not isinstance(node, ast.Call):
        return None
    if last_name(node.func) == "mse_loss" and len(node.args) == 2:
        return frozenset(map(ast.unparse, node.args))
    inner = node.args[0] if node.args and last_name(node.func) == "mean" else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "mean" and isinstance(node.func.value, ast.BinOp):
        inner = node.func.value
    if (
        isinstance(inner, ast.Call)
        and last_name(inner.func) in ("pow", "square")
        and isinstance(inner.func, ast.Attribute)
    ):
        inner = inner.func.value
    elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Pow):
        inner = inner.left
    else:
        return None
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
        return frozenset((ast.unparse(inner.left), ast.unparse(inner.right)))
    return None
