"""gradient-norm-per-pixel: the norm of a gradient penalty runs over the channels alone, once for every pixel."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.ranks import rank_of

LOOKS_AT = "gradient of a gradient"
WORDS = ("norm(",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["norm("]):
        if "grad(" not in file.text:
            continue
        for norm in file.calls("norm"):
            asked = _gradient(norm) if _is_along_one(norm) and _is_penalised(norm) and _mixes(norm) else None
            if asked is None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            rank = rank_of(file, *asked)
            if rank is not None and rank > 2:
                yield Finding(
                    f"The gradient has {rank} dimensions, and its norm runs over the second alone: every pixel's is "
                    "pulled to one, in place of every sample's",
                    norm.place.location,
                    help="flatten it first: `gradients.flatten(1).norm(2, dim=1)`",
                    related=(file.place(asked[0], asked[1]).location,),
                )


def _is_along_one(norm: Call) -> bool:
    """`x.norm(2, dim=1)` and `torch.norm(x, 2, 1)`."""
    of_torch = norm.file.resolve(norm.node.func, norm.context) == "torch.norm"
    return norm.constant("dim", 2 if of_torch else 1) == 1


def _is_penalised(norm: Call) -> bool:
    """Whether a number is taken off it, there or from the name that it is bound to."""
    names = norm.file.names_given(norm.node)
    for node in norm.function.nodes if norm.function is not None else ():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Constant):
            if node.left is norm.node or (isinstance(node.left, ast.Name) and node.left.id in names):
                return True
    return False


def _mixes(norm: Call) -> bool:
    """Whether real and made samples are mixed here, `share * real + (1 - share) * fake`: of points in space, each has
    a slope of its own."""
    return norm.function is not None and any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Constant)
        and node.left.value == 1
        for node in norm.function.nodes
    )


def _gradient(norm: Call) -> tuple[ast.expr, Context] | None:
    """What the gradient whose norm this is was asked for; None where it is none, or was given another shape."""
    file, func = norm.file, norm.node.func
    assert isinstance(func, ast.Attribute | ast.Name)
    of_torch = file.resolve(func, norm.context) == "torch.norm"
    given = norm.argument("input", 0) if of_torch else func.value if isinstance(func, ast.Attribute) else None
    if given is None or (isinstance(given, ast.Name) and given.id in ("torch", "np")):
        return None
    made, context = source(file, given, norm.context)
    if isinstance(made, ast.Subscript) and isinstance(made.slice, ast.Constant):
        made, context = source(file, made.value, context)
    if not isinstance(made, ast.Call) or last_name(made.func) != "grad":
        return None
    asked = _asked(file, made, context)
    return (asked, context) if asked is not None else None


def _asked(file: File, grad: ast.Call, context: Context) -> ast.expr | None:
    """The tensor that `torch.autograd.grad` is asked the gradient for."""
    if file.called(grad, context) != "torch.autograd.grad":
        return None
    return Call(file, grad, context).argument("inputs", 1)
