"""diffusion-formula-wrong: noise that is not what a diffusion model is told that it is, or not mixed in as told."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, last_name, reads_of, walk
from mlcheck.lint.sites import Function
from mlcheck.lint.sites.layers.noise_products import wrong_products

LOOKS_AT = "mixture with noise"
WORDS = ("noise", "eps", "alpha", "sqrt", "gamma")
_NOISE = pattern(r"^(?:noise|eps|epsilon|e)(?:_?\w)?$|^(?:random_)?noises?$")
_LOSSES = pattern(r"loss|mse|criterion|huber|l1")
_UNIFORM = ("torch.rand_like", "torch.rand")
_MOVES = ("to", "cuda", "type_as", "float", "half")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _products(facts)
    for file in facts.sites.mentioning(WORDS):
        for function in file.functions if "torch" in file.text else ():
            text = function.text
            if "sqrt" in text or "0.5" in text:
                yield from _unrooted(facts, function)
            if "rand_like" in text or "torch.rand(" in text:
                yield from _uniform(facts, function)


def _products(facts: Facts) -> Iterator[Finding]:
    for wrong in wrong_products(facts.sites):
        yield Finding(
            f"`{wrong.name}` is {wrong.what}: what is left of a picture is the product of the `1 - beta` of all steps",
            wrong.place.location,
            help="`torch.cumprod(1 - betas, dim=0)`",
        )


def _unrooted(facts: Facts, function: Function) -> Iterator[Finding]:
    """`a.sqrt() * x + (1 - a) * noise`: the variances of both add up to one, and that is what has to be rooted."""
    for node in function.all(ast.BinOp):
        if not isinstance(node.op, ast.Add):
            continue
        for one, other in ((node.left, node.right), (node.right, node.left)):
            roots = [inner for factor in _factors(one) if (inner := _rooted(factor)) is not None]
            plain = [factor for factor in _factors(other) if _rooted(factor) is None]
            facts.sites.seen[LOOKS_AT] += bool(roots)
            for root in roots:
                for factor in plain:
                    if _is_rest(factor, root) or _is_rest(root, factor):
                        yield Finding(
                            f"`{ast.unparse(factor)}` is a share of the variance, and the other side is scaled by the "
                            f"root of its own: the noise does not have the strength that the schedule says",
                            function.place(factor).location,
                            help=f"`({ast.unparse(factor)}) ** 0.5`",
                        )


def _factors(node: ast.expr) -> tuple[ast.expr, ...]:
    return (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else ()


def _rooted(node: ast.expr) -> ast.expr | None:
    """`a` of `a.sqrt()`, `torch.sqrt(a)` and `a ** 0.5`."""
    match node:
        case ast.BinOp(left=inner, op=ast.Pow(), right=ast.Constant(value=0.5)):
            return inner
        case ast.Call(func=ast.Attribute(attr="sqrt"), args=[inner]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="sqrt"), args=[]):
            return inner
    return None


def _is_rest(node: ast.expr, share: ast.expr) -> bool:
    """`1 - share`."""
    match node:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=right):
            return ast.unparse(right) == ast.unparse(share)
    return False


def _uniform(facts: Facts, function: Function) -> Iterator[Finding]:
    """`noise = torch.rand_like(x)`, mixed into `x`, and what the model is to tell."""
    for line in function.all(ast.Assign):
        name = line.targets[0].id if isinstance(line.targets[0], ast.Name) else ""
        if not _NOISE.search(name):
            continue
        drawn = before_methods(line.value, _MOVES)
        named = function.file.called(drawn, function.inner)
        if named not in _UNIFORM:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        mixed = any(_is_mixed(node, name) for node in function.all(ast.BinOp))
        if mixed and any(_is_told(function, call, name) for call in function.all(ast.Call)):
            yield Finding(
                f"`{name}` is drawn from 0 to 1, and is the noise that the model learns to tell: it has a mean of 0.5 "
                "and is not what sampling begins with",
                function.place(drawn).location,
                help=f"`{ast.unparse(drawn).replace('torch.rand', 'torch.randn')}`",
            )


def _is_mixed(node: ast.BinOp, name: str) -> bool:
    """`share * x + rest * noise`."""
    sides = (node.left, node.right) if isinstance(node.op, ast.Add) else ()
    products = [_factors(side) for side in sides]
    return all(products) and bool(products) and any(is_name(f, name) for factors in products for f in factors)


def _is_told(function: Function, call: ast.Call, name: str) -> bool:
    """`mse_loss(model(x, t), noise)`."""
    made, where = function.file.value(call.func, function.inner)
    named = last_name(call.func) + function.file.called(made, where).rpartition(".")[2]
    if not _LOSSES.search(named.lower()) or len(call.args) < 2:
        return False
    return any(is_name(arg, name) for arg in call.args[:2]) and not all(
        reads_of(walk(arg), name) for arg in call.args[:2]
    )
