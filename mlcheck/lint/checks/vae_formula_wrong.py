"""vae-formula-wrong: the divergence or the sampling of a variational autoencoder has something amiss."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from mlcheck.core.finding import Finding, Location, first_of_each_line
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.layers.divergences import is_square, raised, terms, unevenly_scaled
from mlcheck.lint.sites.layers.returned_terms import returned_and_added
from mlcheck.lint.sites.layers.signs_in_sums import added_by_callers, parents, sign_in_sum, sign_of_product

LOOKS_AT = "formula of a variational autoencoder"
WORDS = ("logvar", "log_var", "logsigma", "log_sigma", "logstd", "log_std", "exp(")
_WORDS = ("logvar", "log_var", "logsigma", "log_sigma", "logstd", "log_std", "log_variance")
_DOTTED = pattern(r"[\w.]+")
_VARIANCES = ("logvar", "log_var", "log_variance")
_NORMAL = ("torch.randn_like", "torch.randn", "numpy.random.randn", "numpy.random.standard_normal")
_WRAPS = ("Variable", "Tensor", "FloatTensor", "from_numpy", "tensor", "as_tensor")
_MOVES = ("to", "cuda", "float", "double", "type", "type_as", "requires_grad_", "detach")
_DISTRIBUTIONS = ("torch.distributions.Normal", "torch.distributions.normal.Normal")
_MOMENTS = {"loc": "mean", "scale": "std"}
_PRODUCTS = ("mul", "mul_", "multiply")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for function in file.functions:
            yield from first_of_each_line(_judgements(facts, Stretch(file, function.nodes, function.inner)))
        script = file.nodes_in(file.module.source.tree)
        yield from first_of_each_line(_judgements(facts, Stretch(file, script, file.walk.module)))


@dataclass(frozen=True)
class Stretch:
    """The lines of a function, or of a file outside of its functions."""

    file: File
    nodes: Sequence[ast.AST]
    context: Context

    def location(self, node: ast.AST) -> Location:
        return self.file.place(node, self.context).location

    def value(self, node: ast.expr) -> ast.expr:
        return self.file.value(node, self.context)[0]

    def rebound(self, line: ast.Assign) -> list[ast.AST]:
        """What gives the target of a line another value elsewhere: `kl = -0.5 * kl`, `kl *= beta`."""
        name, kind = ast.unparse(line.targets[0]), type(line.targets[0])
        stores = [node for node in self.nodes if isinstance(node, kind) and ast.unparse(node) == name]
        given = [node for node in stores if isinstance(getattr(node, "ctx", None), ast.Store)]
        return [node for node in given if node is not line.targets[0]]


def _judgements(facts: Facts, lines: Stretch) -> Iterator[Finding]:
    yield from _added(lines)
    for node in lines.nodes:
        if isinstance(node, ast.BinOp) and (name := unevenly_scaled(node)) and _names_a_scale(name):
            facts.sites.seen[LOOKS_AT] += 1
            yield Finding(
                f"`{name}` and its exponential are scaled differently: this divergence is not smallest where both "
                "distributions are the same",
                lines.location(node),
                help=f"with the logarithm of a deviation: `1 + 2 * {name} - mu.pow(2) - torch.exp(2 * {name})`",
            )
        elif isinstance(node, ast.BinOp) and (told := _judged(node)) is not None:
            facts.sites.seen[LOOKS_AT] += 1
            told = told or _added_negative(lines, node)
            if told:
                yield Finding(
                    told,
                    lines.location(node),
                    help="`-0.5 * (1 + logvar - mu.pow(2) - logvar.exp())`, summed over the latent dimensions",
                )
        elif name := _deviation(lines, node):
            facts.sites.seen[LOOKS_AT] += 1
            yield Finding(
                f"Noise is multiplied by the variance, `exp({name})`, and not by the deviation",
                lines.location(node),
                help=f"the deviation is `torch.exp(0.5 * {name})`",
            )


def _added(lines: Stretch) -> Iterator[Finding]:
    """`loss + kld`, where `kld` is `0.5 * sum(1 + l - m**2 - exp(l))`: the divergence with the wrong sign."""
    for line in lines.nodes:
        if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
            continue
        name, value = line.targets[0].id, line.value
        sums = [node for node in walk(value) if isinstance(node, ast.BinOp) and _judged(node) == ""]
        minus = any(isinstance(node, ast.USub) for node in ast.walk(value))
        if not sums or minus or not _leads_with_one(sums[0]) or "kl" not in name.lower() or lines.rebound(line):
            continue
        for node in lines.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_loss(lines, node.left):
                if any(is_name(part, name) for part in walk(node.right)):
                    yield Finding(
                        f"`{name}` is the divergence with the wrong sign: adding it to the loss rewards distance "
                        "from the prior",
                        lines.location(line),
                        help="`-0.5 * (1 + logvar - mu.pow(2) - logvar.exp())`, summed over the latent dimensions",
                        related=(lines.location(node),),
                    )
                    return


def _names_a_scale(name: str) -> bool:
    return any(word in name.lower() for word in _WORDS)


def _leads_with_one(node: ast.BinOp) -> bool:
    """`1 + l - m**2 - exp(l)`, and not `m**2 + exp(l) - l - 1`."""
    return any(s == 1 for s, term in terms(node, 1) if isinstance(term, ast.Constant) and term.value == 1)


def _is_loss(lines: Stretch, node: ast.expr) -> bool:
    """Whether this is what a loss function returned, which gets smaller as things get better."""
    made = lines.value(node)
    name = last_name(made.func).lower() if isinstance(made, ast.Call) else ""
    return any(word in name for word in ("entropy", "mse", "l1_loss", "loss"))


def _judged(node: ast.BinOp) -> str | None:
    """What is amiss with `1 + l - m.pow(2) - l.exp()`, "" where nothing is; None for any other sum.

    With unit variance and zero mean it is zero and does not change with `l`: the prior itself.
    """
    parts = list(terms(node, 1))
    ones = [sign for sign, term in parts if isinstance(term, ast.Constant) and term.value == 1]
    squares = [sign for sign, term in parts if is_square(term)]
    rest = [(sign, term) for sign, term in parts if not isinstance(term, ast.Constant) and not is_square(term)]
    if len(parts) != 4 or len(ones) != 1 or len(squares) != 1:
        return None
    logs = [(sign, ast.unparse(term)) for sign, term in rest if isinstance(term, ast.Name | ast.Attribute)]
    powers = [(sign, raised(term)) for sign, term in rest if raised(term)]
    if len(logs) == 2 and logs[0][1] == logs[1][1] and _names_a_scale(logs[0][1]):
        return f"`{logs[0][1]}` stands in this divergence twice, and its exponential not at all"
    if len(logs) != 1 or len(powers) != 1 or logs[0][1] != powers[0][1]:
        return None
    if logs[0][0] == ones[0] and powers[0][0] == -ones[0] and squares[0] == -ones[0]:
        return ""
    if not _names_a_scale(logs[0][1]):
        return None
    return "The signs of this divergence do not agree: it is not smallest where both distributions are the same"


def _added_negative(lines: Stretch, formula: ast.BinOp) -> str:
    """`kld = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())`, which is never positive, and `loss + kld`."""
    above = parents(lines.nodes)
    sign = -next(sign for sign, term in terms(formula, 1) if isinstance(term, ast.Constant))
    if returned_and_added(lines.file, lines.context, formula, sign, above):
        return "This divergence is never positive, and callers add it to their loss: its minus sign is missing"
    sign, line = _sign_where_bound(formula, sign, above)
    target = line.targets[0] if line is not None else None
    if line is None or not isinstance(target, ast.Name | ast.Attribute):
        return ""
    name, kind = ast.unparse(target), type(target)
    reads = [n for n in lines.nodes if isinstance(n, kind) and isinstance(n.ctx, ast.Load) and ast.unparse(n) == name]
    for bound in lines.rebound(line):
        again = above.get(id(bound))
        inside = [read for read in reads if isinstance(again, ast.Assign) and read in ast.walk(again.value)]
        if isinstance(again, ast.AugAssign) and isinstance(again.op, ast.Mult | ast.Div):
            sign *= sign_of_product(again.value)
        elif len(inside) == 1 and isinstance(again, ast.Assign) and again.targets == [bound]:
            sign, _ = _sign_where_bound(inside[0], sign, above)
        else:
            return ""
        reads = [read for read in reads if read not in inside]
    if sign >= 0:
        return ""
    sums = {sign: read for read in reads if (sign := sign_in_sum(read, above))}
    named = "kl" in last_name(target).lower()
    returned = named and not sums and added_by_callers(lines.file, lines.context, reads, above)
    if not returned and (set(sums) != {1} or not (named or _is_minimised(lines, sums[1], above))):
        return ""
    return f"`{name}` is never positive, and is added to the loss: its minus sign is missing"


def _sign_where_bound(node: ast.AST, sign: int, above: dict[int, ast.AST]) -> tuple[int, ast.Assign | None]:
    """The line that binds what is computed from a node, and the sign that this has there; None for no such line."""
    while not isinstance(node, ast.Assign):
        outer = above.get(id(node))
        if isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.USub):
            sign = -sign
        elif isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mult | ast.Div):
            other = outer.right if outer.left is node else outer.left
            sign *= sign_of_product(other)
        elif not isinstance(outer, ast.Assign | ast.Attribute | ast.Call):
            return 0, None
        node = outer
    return sign, node


def _is_minimised(lines: Stretch, node: ast.AST, above: dict[int, ast.AST]) -> bool:
    """Whether what a name is added into is differentiated as it is: `total = loss + kld`, `total.backward()`."""
    while isinstance(node, ast.expr):
        node = above.get(id(node), lines.file.module.source.tree)
    total = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else "?"
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) == f"{total}.backward" for n in lines.nodes)


def _deviation(lines: Stretch, node: ast.AST) -> str:
    """`logvar` of `eps * logvar.exp()`, where `eps` is drawn from a normal distribution."""
    for noise, factor in permutations(_factors(lines, node), 2):
        name = raised(lines.value(factor)) if _is_noise(lines, noise) else ""
        last = name.rpartition(".")[2].lower() if _DOTTED.fullmatch(name) else ""
        if last.endswith(_VARIANCES) and not _is_of_deviation(lines, last):
            return name
    return ""


def _is_of_deviation(lines: Stretch, name: str) -> bool:
    """Whether it is doubled, or its exponential squared, anywhere: the logarithm of a deviation, whatever its name."""
    word = rf"[\w.]*{re.escape(name)}"
    doubled = rf"(?<![\w.])2(?:\.0?)?\s*\*\s*{word}\b|{word}\s*\*\s*2\b"
    squared = (
        rf"(?:{word}\.exp\(\)|exp\({word}\))\)?\s*(?:\*\*|\.pow|\.square)|square\((?:torch\.exp\({word}|{word}\.exp)"
    )
    either = re.compile(f"{doubled}|{squared}", re.IGNORECASE)
    return any(either.search(file.text) for file in lines.file.sites.files.values())


def _factors(lines: Stretch, node: ast.AST) -> tuple[ast.expr, ...]:
    """Both sides of `a * b`, `a.mul(b)` and `torch.mul(a, b)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return (node.left, node.right)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _PRODUCTS:
        return ()
    of_torch = lines.file.resolve(node.func, lines.context) is not None
    sides = tuple(node.args) if of_torch else (node.func.value, *node.args)
    return sides if len(sides) == 2 else ()


def _is_noise(lines: Stretch, node: ast.expr) -> bool:
    """`torch.randn_like(std).to(device)`, `Variable(torch.randn(n))`, `std.new(n).normal_(0, 1)`, of unit variance."""
    drawn = before_methods(lines.value(node), _MOVES)
    while isinstance(drawn, ast.Call) and len(drawn.args) == 1 and last_name(drawn.func) in _WRAPS:
        drawn = before_methods(lines.value(drawn.args[0]), _MOVES)
    if not isinstance(drawn, ast.Call):
        return False
    named = lines.file.resolve(drawn.func, lines.context)
    if named in ("torch.normal", "numpy.random.normal"):
        return _is_standard(drawn) and bool(drawn.args)
    owner = drawn.func.value if isinstance(drawn.func, ast.Attribute) else None
    if owner is not None and last_name(drawn.func) in ("sample", "rsample"):
        made = lines.value(owner)
        normal = isinstance(made, ast.Call) and lines.file.resolve(made.func, lines.context) in _DISTRIBUTIONS
        return isinstance(made, ast.Call) and normal and _is_standard(made) and len(made.args) + len(made.keywords) == 2
    return named in _NORMAL or (last_name(drawn.func) == "normal_" and owner is not None and _is_standard(drawn))


def _is_standard(drawn: ast.Call) -> bool:
    """Whether the mean is 0 and the deviation 1, as far as they are given."""
    given = dict(zip(("mean", "std"), drawn.args, strict=False))
    given |= {_MOMENTS.get(word.arg or "", word.arg or ""): word.value for word in drawn.keywords}
    expected = {"mean": ("0", "0.0"), "std": ("1", "1.0")}
    return all(name not in expected or ast.unparse(value) in expected[name] for name, value in given.items())
