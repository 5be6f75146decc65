"""gradient-norm-per-pixel: the norm of a gradient penalty runs over the channels alone, once for every pixel."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.layers.ranks import rank_of
from mlcheck.lint.sites.origins import Origin, sole

LOOKS_AT = "gradient of a gradient"
WORDS = ("norm(",)
_NORMS = ("torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["norm("]):
        if "grad(" not in file.text:
            continue
        for norm in file.calls("norm", "vector_norm"):
            asked = _gradient(norm) if _is_along_one(norm) and _is_penalised(norm) and _mixes(norm) else None
            if asked is None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            rank = rank_of(asked.file, asked.node, asked.context)
            if rank is not None and rank > 2:
                yield Finding(
                    f"The gradient has {rank} dimensions, and its norm runs over the second alone: every pixel's is "
                    "pulled to one, in place of every sample's",
                    norm.place.location,
                    help="flatten it first: `gradients.flatten(1).norm(2, dim=1)`",
                    related=(asked.file.place(asked.node, asked.context).location,),
                )


def _is_along_one(norm: Call) -> bool:
    """`x.norm(2, dim=1)` and `torch.norm(x, 2, 1)`."""
    return norm.constant("dim", 2 if _is_of_torch(norm) else 1) == 1


def _is_of_torch(norm: Call) -> bool:
    return norm.file.resolve(norm.node.func, norm.context) in _NORMS


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


def _gradient(norm: Call) -> Origin | None:
    """What the gradient whose norm this is was asked for; None where it is none, or was given another shape."""
    file, func = norm.file, norm.node.func
    assert isinstance(func, ast.Attribute | ast.Name)
    given = (
        norm.argument("x" if norm.name.startswith("torch.linalg") else "input", 0)
        if _is_of_torch(norm)
        else func.value
        if isinstance(func, ast.Attribute)
        else None
    )
    if given is None or (isinstance(given, ast.Name) and given.id in ("torch", "np")):
        return None
    made = _first_of(sole(file, given, norm.context))
    if made is None or made.name != "torch.autograd.grad" or not isinstance(made.node, ast.Call):
        return None
    asked = Call(made.file, made.node, made.context).argument("inputs", 1)
    if not isinstance(asked, ast.Name) or made.entered is None:
        return made._replace(node=asked) if asked is not None else None
    held = made.entered.passed(asked.id)
    return Origin(made.entered.call.file, held[0], made.entered.call.context) if held and not held[1] else None


def _first_of(made: Origin | None) -> Origin | None:
    """The call that `grad` is taken from: `grad = g[0]`, `(grad,) = g`, where `g = torch.autograd.grad(...)`."""
    while made is not None and isinstance(made.node, ast.Subscript) and isinstance(made.node.slice, ast.Constant):
        made = sole(made.file, made.node.value, made.context, made.entered)
    return made
